"""A book: pages in one file with nothing beside them, as the builders ``epub`` and ``singlehtml`` make it.

What a site has besides its pages is left out of it: downloads, the pages of whole sources and the links to them, the
texts that buttons copy. A reader of EPUB takes a picture from a file of its own, in colours of its own.
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
# A colour of the theme, with the one that stands for it without a theme.
_COLOUR = re.compile(r"var\(--[\w-]+,\s*([^()]+)\)")


def is_site(builder: Builder) -> bool:
    """Say whether a builder writes pages in HTML that can have files beside them."""
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
