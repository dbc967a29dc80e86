"""``{whole-sources}``: whole files, folded, for the end of a page.

::

    ```{whole-sources}
    csrc/runtime/hooks.h
    csrc/runtime/hooks.cpp
    ```

They are there to be copied. A region counts as shown only where a listing shows it, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from weaver.pages.links import link
from weaver.pages.records import page
from weaver.pages.repository import Source, report, repository_source
from weaver.pages.where import line_of
from weaver.sources import regions

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


class details(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """A folded part of a page."""


class summary(nodes.General, nodes.TextElement):  # noqa: N801 (docutils names its nodes so)
    """The line of a folded part that stays visible."""


class WholeSources(SphinxDirective):
    """Shows each file that its body names, relative to the root of the repository."""

    has_content = True

    def run(self) -> list[Node]:
        """Return one folded listing per file."""
        shown: list[Node] = []
        for path in (line.strip() for line in self.content):
            if path:
                try:
                    shown.append(self._folded(repository_source(self.config, path)))
                except LookupError as error:
                    line = line_of(self.env, self.env.docname, [path], self.lineno)
                    report(self.env.docname, line, f"whole-sources: {error}", "whole-sources")
        if not shown:
            report(self.env.docname, self.lineno, "whole-sources: name one file to a line", "whole-sources")
        return shown

    def _folded(self, source: Source) -> Node:
        self.env.note_dependency(str(source.file))
        page(self.env, self.env.docname).whole.add(source.label)
        lines = [line for line in regions.read_lines(source.file) if not regions.is_marker(line)]
        text = "\n".join(lines)
        block = nodes.literal_block(text, text, source=str(source.file))
        block["language"] = regions.language_of(source.file) or "text"
        block["weaver_source"] = source
        # A compiler has accepted it: where the highlighter does not know a form, that is no fault of the page.
        block["force"] = True
        self.set_source_info(block)
        count = nodes.inline("", f"{len(lines)} lines", classes=["line-count"])
        head = summary("", "", nodes.literal("", source.label), nodes.Text(" "), count)
        numbered = nodes.paragraph("", "", link(source, "with line numbers", None, "provenance"))
        return details("", head, numbered, block, classes=["whole-source"])


def _visit(translator: HTML5Translator, node: nodes.Element) -> None:
    translator.body.append(translator.starttag(node, node.tagname, ""))


def _depart(translator: HTML5Translator, node: nodes.Element) -> None:
    translator.body.append(f"</{node.tagname}>\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and its nodes."""
    for node in (details, summary):
        app.add_node(node, html=(_visit, _depart))
    app.add_directive("whole-sources", WholeSources)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
