"""``{library-table}``: the programs of users' libraries, and what `make libraries` found with each.

A row says what a program does on the device as the library is, what a user must do, and how far the values then are
from those of the CPU. Below the rows stand the date and the release of PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from results import LIBRARIES
from sphinx.util.docutils import SphinxDirective
from weaver.pages.proven_tables import table
from weaver.pages.repository import report, root_of

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx
    from weaver.pages.proven_tables import Cell

_HEADERS = ["Library", "Program", "As it is", "What a user does", "Then, difference from the CPU", "Seconds"]


def parts(found: dict[str, Any]) -> Iterator[Node]:
    """The table, and the sentence that says when and with what it was made."""
    made = table(_HEADERS, [_row(row) for row in found["programs"]])
    assert isinstance(made, nodes.table)
    made["classes"].append("wrapping")
    yield made
    libraries = len({row["library"] for row in found["programs"]})
    yield nodes.paragraph(
        "",
        f"{len(found['programs'])} programs of {libraries} libraries, run by make libraries on {found['date']} with "
        f"PyTorch {found['PyTorch']}.",
    )


def _row(row: dict[str, Any]) -> list[Cell]:
    without = row["without"]
    as_it_is: Cell = f"on {without}" if without in ("the CPU", "the device") else nodes.literal("", without)
    difference = f"{row['difference']:.0e}" if row["difference"] else "none"
    return [
        f"{row['library']} {row['version']}",
        _marked(row["program"]),
        as_it_is,
        _marked(row["must"]),
        difference,
        f"{row['seconds']:.2f}",
    ]


def _marked(text: str) -> Node:
    """A text in which code stands between backticks."""
    words = nodes.inline()
    for number, part in enumerate(text.split("`")):
        if part:
            words += nodes.literal("", part) if number % 2 else nodes.Text(part)
    return words


class LibraryTable(SphinxDirective):
    """The whole table."""

    def run(self) -> list[Node]:
        """Return the table; report a fault and return nothing if there is no result."""
        file = Path(root_of(self.config)) / LIBRARIES.path
        self.env.note_dependency(str(file))
        if not file.is_file():
            message = f"library-table: there is no {LIBRARIES.path}: run `{LIBRARIES.command}`"
            report(self.env.docname, self.lineno, message, "library")
            return []
        return list(parts(json.loads(file.read_text(encoding="utf-8"))))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("library-table", LibraryTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
