"""``{proven}``: the figures of the proof, as tables of the reference page.

The argument selects one: ``state``, ``lines``, ``mutants``, ``examples``, ``excused``, ``survivors``, ``equivalent`` or
``narrated``. The tables are made when a page is written, from the proof files and from what all pages show now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

from weaver.pages import current
from weaver.pages.proven_tables import TABLES
from weaver.pages.records import page
from weaver.pages.repository import report

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx


class figures(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """The place of a table."""


class Proven(SphinxDirective):
    """A table of the proof."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """Return the place of the table, with the anchor ``proven-`` and its name."""
        kind = directives.unchanged_required(self.arguments[0])
        if kind not in TABLES:
            known = ", ".join(TABLES)
            report(self.env.docname, self.lineno, f"proven: no table `{kind}`; there are: {known}", "proven")
            return []
        page(self.env, self.env.docname).figures.append(kind)
        return [figures("", kind=kind)]


class Figures(SphinxPostTransform):
    """Replaces the places by the tables."""

    default_priority = 5

    def run(self, **_: object) -> None:
        """Replace each place by its table."""
        for place in list(self.document.findall(figures)):
            anchor = nodes.target("", "", ids=[f"proven-{place['kind']}"])
            place.replace_self([anchor, *TABLES[place["kind"]](self.app, self.env.docname)])


def _made(app: Sphinx, docname: str) -> str:
    kinds = page(app.env, docname).figures
    return "\n".join(node.pformat() for kind in kinds for node in TABLES[kind](app, docname))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and the step that fills it."""
    app.setup_extension("weaver.pages.current")
    current.keep_current(app, _made)
    app.add_node(figures)
    app.add_directive("proven", Proven)
    app.add_post_transform(Figures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
