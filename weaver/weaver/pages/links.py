"""Links to lines of the generated source pages, and the role ``source`` that writes them.

``{source}`csrc/aten/copy.cpp``` links to the file, ``path#region-name`` to a marked region of it, ``path@text`` to the
only line that contains ``text``; ``title <target>`` gives the link its own text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxRole

from weaver.pages.book import is_site
from weaver.pages.records import page
from weaver.pages.repository import Source, configuration_of, page_source, report
from weaver.sources import regions
from weaver.sources.installed import is_path

if TYPE_CHECKING:
    from docutils.nodes import Node, system_message
    from sphinx.application import Sphinx

_TITLED = re.compile(r"(?P<title>.+?)\s*<(?P<target>[^<>]+|.*@.*)>", re.DOTALL)


class source_link(nodes.Inline, nodes.TextElement):  # noqa: N801 (docutils names its nodes so)
    """A link to a line of a generated source page. On a site it becomes a reference."""


def link(source: Source, text: str, place: int | str | None, *classes: str) -> source_link:
    """Return a link to a line of ``source``, to another anchor of its page, or to its top."""
    anchor = f"L{place}" if isinstance(place, int) else place or ""
    return source_link(text, text, page=source.page, anchor=anchor, classes=list(classes))


class SourceRole(SphinxRole):
    """``{source}``: a link to a source file, one of its marked regions, or the line that contains some text."""

    def run(self) -> tuple[list[Node], list[system_message]]:
        """Return the link, or a plain literal and a warning when its target does not exist."""
        titled = _TITLED.fullmatch(self.text)
        target = titled["target"] if titled else self.text
        try:
            source, line = self._resolve(target)
        except LookupError as error:
            report(self.env.docname, self.lineno, f"{{source}}`{target}`: {error}", "source")
            return [nodes.literal(target, target)], []
        self.env.note_dependency(str(source.file))
        if source.installed:
            page(self.env, self.env.docname).installed_files.add(re.split("[#@]", target)[0])
        text = titled["title"] if titled else source.label + (f":{line}" if line else "")
        return [link(source, text, line, "source-link")], []

    def _resolve(self, target: str) -> tuple[Source, int | None]:
        path, sign, rest = re.fullmatch(r"([^#@]+)([#@]?)(.*)", target, re.DOTALL).groups()  # type: ignore[union-attr]
        source = page_source(
            self.env,
            self.env.docname,
            path if is_path(configuration_of(self.config).installed, path) else f"/{path.lstrip('/')}",
        )
        if not sign:
            return source, None
        lines = regions.read_lines(source.file)
        if sign == "#":
            found = {region.name: region for region in regions.parse(source.label, lines)[0]}
            if rest not in found:
                raise LookupError(f"{source.label} has no region `{rest}`; it has: {', '.join(found) or 'none'}")
            return source, found[rest].first
        numbers = [number for number, line in enumerate(lines, start=1) if rest in line]
        if len(numbers) != 1:
            raise LookupError(f"`{rest}` occurs in {len(numbers)} lines of {source.label}, and must occur in one")
        return source, numbers[0]


def _resolve_links(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for node in list(doctree.findall(source_link)):
        text = node.astext()
        if is_site(app.builder):
            uri = app.builder.get_relative_uri(docname, node["page"]) + (f"#{node['anchor']}" if node["anchor"] else "")
            node.replace_self(nodes.reference(text, text, refuri=uri, internal=True, classes=node["classes"]))
        else:
            node.replace_self(nodes.inline(text, text, classes=node["classes"]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the role and the step that turns its nodes into links."""
    app.add_node(source_link)
    app.add_role("source", SourceRole())
    app.connect("doctree-resolved", _resolve_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
