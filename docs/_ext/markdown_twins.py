"""Each page as Markdown beside its HTML, and ``llms.txt``, which lists them, for programs that read the guide.

The twin of ``accelerator/guard.html`` is ``accelerator/guard.md``. It is written from what the page shows, so it
contains listings and the output of examples as text. The list has the form of https://llmstxt.org.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util.osutil import relative_uri
from sphinx_markdown_builder.translator import MarkdownTranslator
from weaver.pages.book import is_site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

LIST = "llms.txt"
_PICTURE = re.compile(r'<svg\b[^>]*\baria-label="([^"]*)"')


class Translator(MarkdownTranslator):  # type: ignore[misc] # the library has no types
    """The library's translator, for a tree that was built for HTML."""

    def __init__(self, document: nodes.document, app: Sphinx, page: str) -> None:
        super().__init__(document, app.builder)
        others = app.env.found_docs - {page}
        self._twins = {relative_uri(f"{page}.html", f"{other}.html") for other in others}

    def visit_raw(self, node: nodes.raw) -> None:
        """Keeps nothing of raw HTML but the words that describe a picture."""
        if picture := _PICTURE.search(node.astext()):
            self.add(f"[Picture: {unescape(picture[1])}]", prefix_eol=2, suffix_eol=2)
        raise nodes.SkipNode

    def visit_container(self, node: nodes.container) -> None:
        """Leaves out the marks below listings, which link to parts of the HTML."""
        if "mark" in node["classes"]:
            raise nodes.SkipNode

    def unknown_visit(self, node: nodes.Node) -> None:
        """Ignores nodes that surround text, such as a card or a tab."""

    def unknown_departure(self, node: nodes.Node) -> None:
        """Does nothing: there is nothing to close."""

    def _fetch_ref_uri(self, node: nodes.reference) -> str:
        if "refid" in node:
            return f"#{node['refid']}"
        page, mark, anchor = str(super()._fetch_ref_uri(node)).partition("#")
        return f"{page.removesuffix('.html')}.md{mark}{anchor}" if page in self._twins else f"{page}{mark}{anchor}"


def _write_twin(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    if doctree is None or not is_site(app.builder):
        return
    translator = Translator(doctree, app, page)
    doctree.walkabout(translator)
    file = Path(app.outdir, f"{page}.md")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(translator.astext(), encoding="utf-8")
    link = f'<link rel="alternate" type="text/markdown" href="{file.name}">'
    context["metatags"] = f"{context['metatags']}{link}\n"


def _write_list(app: Sphinx, error: Exception | None) -> None:
    if error is None and is_site(app.builder):
        Path(app.outdir, LIST).write_text("\n".join([*_list(app), ""]), encoding="utf-8")


def _list(app: Sphinx) -> Iterator[str]:
    """The lines: what the guide is, then its pages under the captions of the contents."""
    root = app.config.root_doc
    yield from (f"# {app.config.project}", "", f"> {_lead(app, root)}")
    for contents in app.env.get_doctree(root).findall(addnodes.toctree):
        yield from ("", f"## {contents['caption'] or 'Pages'}", "")
        pages = [page for _, page in contents["entries"] if page in app.env.found_docs]  # without Sphinx's index
        for page in pages:
            yield f"- [{app.env.titles[page].astext()}]({page}.md): {_lead(app, page)}".removesuffix(": ")


def _lead(app: Sphinx, page: str) -> str:
    """The first paragraph of a twin, without its links; empty if there is none."""
    blocks = Path(app.outdir, f"{page}.md").read_text(encoding="utf-8").split("\n\n")
    text = next((block for block in blocks if block.strip() and not block.startswith(("#", "<"))), "")
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the handlers that write a page's twin, and the list at the end."""
    app.setup_extension("sphinx_markdown_builder")
    app.connect("html-page-context", _write_twin)
    app.connect("build-finished", _write_list)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
