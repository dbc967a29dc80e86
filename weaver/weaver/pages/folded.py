"""A part of a page that a reader unfolds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


class details(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """A folded part of a page."""


class summary(nodes.General, nodes.TextElement):  # noqa: N801 (docutils names its nodes so)
    """The line of a folded part that stays visible."""


def _visit(translator: HTML5Translator, node: nodes.Element) -> None:
    translator.body.append(translator.starttag(node, node.tagname, ""))


def _depart(translator: HTML5Translator, node: nodes.Element) -> None:
    translator.body.append(f"</{node.tagname}>\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the nodes."""
    for node in (details, summary):
        app.add_node(node, html=(_visit, _depart))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
