"""The weaver: documentation of C++ and Python in which every code block is compiled, executed or compared.

``weaver.sources`` parses sources, ``weaver.pages`` contains the Sphinx extensions, ``weaver.run`` runs the examples of
pages, and ``weaver.proof`` measures to what extent they prove what the pages show. ``weaver.configuration`` reads the
configuration of a project. As a Sphinx extension, ``weaver`` loads all the others.
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
