"""Limits the length of a page, by ``[longest]`` of ``weaver.toml``.

Words are counted in prose only: not in code, captions, tables or a glossary. Kilobytes are those of the HTML file that
a browser loads, with its listings, links and marks. A longer page is a fault.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from docutils import nodes
from sphinx import addnodes

from weaver.pages.book import is_site
from weaver.pages.repository import configuration_of, report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.builders.html import StandaloneHTMLBuilder

_NO_PROSE = (nodes.literal_block, nodes.caption, nodes.table, nodes.raw, nodes.comment, addnodes.glossary)


def words(document: nodes.document) -> int:
    """Return the number of words of prose on a page."""
    return sum(len(text.split()) for text in _prose(document))


def _prose(node: nodes.Node) -> Iterator[str]:
    if isinstance(node, nodes.TextElement) and not isinstance(node, _NO_PROSE):
        yield node.astext()
    elif not isinstance(node, _NO_PROSE):
        for child in node.children:
            yield from _prose(child)


def _count(app: Sphinx, doctree: nodes.document) -> None:
    longest = configuration_of(app.config).longest
    found = words(doctree)
    if longest.words and found > longest.words:
        _report(app.env.docname, f"{found} words of prose are more than the {longest.words}")


def _weigh(app: Sphinx, exception: Exception | None) -> None:
    longest = configuration_of(app.config).longest
    if exception is not None or not longest.kilobytes or not is_site(app.builder):
        return
    for docname in sorted(app.env.found_docs):
        page = Path(cast("StandaloneHTMLBuilder", app.builder).get_outfilename(docname))
        size = page.stat().st_size if page.is_file() else 0
        if size > longest.kilobytes * 1024:
            _report(docname, f"{size / 1024:.0f} KB are more than the {longest.kilobytes} KB")


def _report(docname: str, what: str) -> None:
    report(docname, 1, f"{what} that `[longest]` of weaver.toml allows a page: cut it into two", "length")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both limits: words when a page is read, bytes when all are written."""
    app.connect("doctree-read", _count)
    app.connect("build-finished", _weigh)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
