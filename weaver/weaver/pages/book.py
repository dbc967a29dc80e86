"""A book: all pages in one file without companion files, as the builders ``epub`` and ``singlehtml`` write it.

A book omits what a site has besides its pages: downloads, source pages and the links to them, and the texts that
buttons copy. An EPUB reader loads each picture from its own file, with fixed colors.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.osutil import relative_uri

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders import Builder

_BOOKS = ("epub", "singlehtml")
_FOLDER = "_images"
# A color of the theme, with its fallback.
_COLOUR = re.compile(r"var\(--[\w-]+,\s*([^()]+)\)")


def is_site(builder: Builder) -> bool:
    """Return whether a builder writes HTML pages that can have companion files."""
    return builder.format == "html" and builder.name not in _BOOKS


def _pictures(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.name != "epub":
        return
    page = app.builder.get_target_uri(docname)
    for node in list(doctree.findall(nodes.raw)):
        text = node.astext()
        if node.get("format") == "html" and text.startswith("<svg"):
            drawn = _COLOUR.sub(r"\1", text)
            name = f"{_FOLDER}/{sha256(drawn.encode()).hexdigest()[:16]}.svg"
            file = Path(app.outdir, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(drawn, encoding="utf-8")
            alt = escape(ET.fromstring(text).get("aria-label", ""))
            node.replace_self(nodes.raw("", f'<img src="{relative_uri(page, name)}" alt="{alt}"/>', format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the step that writes pictures as files, after those that draw them."""
    app.connect("doctree-resolved", _pictures, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
