"""The weaver: documentation of C++ and Python in which every code block is compiled, executed or compared.

``weaver.sources`` knows what a source is made of, ``weaver.pages`` has the Sphinx extensions, ``weaver.run`` runs what
pages execute, and ``weaver.proof`` measures how far that proves what they show. ``weaver.configuration`` is what it is
told of a project. As a Sphinx extension, ``weaver`` stands for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__version__ = "0.1.0"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register all extensions."""
    from weaver.pages import EXTENSIONS

    for name in (*(f"weaver.pages.{name}" for name in EXTENSIONS), "weaver.run.builder"):
        app.setup_extension(name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
