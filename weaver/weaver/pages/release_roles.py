"""The roles ``since`` and ``until`` mark what holds only for some releases of the installed package.

``{since}`2.14``` marks a sentence or a row that holds from a series on, ``{until}`2.13``` one that holds up to and
including it. The series must be listed in ``[installed] releases``, and must not be the first for ``since`` or the last
for ``until``: a mark without effect is a fault, so that marks are removed when a series is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxRole

from weaver.pages.repository import configuration_of, report
from weaver.sources.installed import release, supported_series, title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docutils.nodes import Node, system_message
    from sphinx.application import Sphinx

_KINDS = ("since", "until")


def _numbers(series: str) -> tuple[int, ...]:
    return tuple(map(int, series.split(".")))


class ReleaseRole(SphinxRole):
    """``{since}`` or ``{until}``."""

    def run(self) -> tuple[list[Node], list[system_message]]:
        """Return the mark, or a plain literal and a fault when the series is unknown or the mark has no effect."""
        configuration = configuration_of(self.config)
        known = supported_series(configuration)
        useless = known[:1] if self.name == "since" else known[-1:]
        if self.text not in known or self.text in useless:
            why = "holds for all of them" if self.text in useless else "is none of them"
            message = f"{{{self.name}}}`{self.text}`: {why}; the series are {', '.join(known) or 'none'}"
            report(self.env.docname, self.lineno, message, "release")
            return [nodes.literal(self.text, self.text)], []
        text = f"{self.name} {title(configuration)} {self.text}"
        return [nodes.inline(text, text, classes=["release-mark"], release_kind=self.name, series=self.text)], []


def marks(node: nodes.Element) -> Iterator[nodes.inline]:
    """Yield the marks below a node."""
    return (mark for mark in node.findall(nodes.inline) if "release_kind" in mark)


def holds(node: nodes.Element, package: str) -> bool:
    """Return whether a node holds for the installed release of a package, by the marks in it."""
    installed = _numbers(".".join(release(package).split(".")[:2]))
    for mark in marks(node):
        series = _numbers(mark["series"])
        if installed < series if mark["release_kind"] == "since" else installed > series:
            return False
    return True


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both roles."""
    for kind in _KINDS:
        app.add_role(kind, ReleaseRole())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
