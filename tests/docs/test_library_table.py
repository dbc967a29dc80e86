"""The table of libraries shows what `make libraries` has written, for the releases that are pinned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from environment import requirements
from libraries import PINNED, libraries
from results import LIBRARIES

from docs._ext import library_table
from tests.libraries.catalog import PROGRAMS

ROOT = Path(__file__).parents[2]
FOUND: dict[str, Any] = json.loads((ROOT / LIBRARIES.path).read_text(encoding="utf-8"))


def rows(found: dict[str, Any]) -> list[list[str]]:
    """The cells of the table, as text."""
    made, _date = library_table.parts(found)
    return [[entry.astext() for entry in row.findall(nodes.entry)] for row in made.findall(nodes.row)][1:]


def test_each_program_has_a_row_in_the_result() -> None:
    written = sorted((row["library"], row["program"]) for row in FOUND["programs"])
    assert written == sorted((program.library, program.name) for program in PROGRAMS)
    assert {library for library, _ in written} == set(libraries())


def test_the_result_is_of_the_releases_that_are_pinned() -> None:
    pinned = dict(requirement.split("==") for requirement in requirements(*PINNED))
    assert {row["library"]: row["version"] for row in FOUND["programs"]} == pinned


def test_a_difference_in_the_result_is_allowed() -> None:
    bounds = {(program.library, program.name): program.bound for program in PROGRAMS}
    assert all(row["difference"] <= bounds[row["library"], row["program"]] for row in FOUND["programs"])


def test_a_row_shows_what_was_found() -> None:
    row = {
        "library": "one", "version": "1.2", "program": "a `call()` there", "without": "Error: no", "must": "nothing",
        "difference": 2e-7, "seconds": 1.239,
    }  # fmt: skip
    found = {
        "date": "2026-01-02",
        "PyTorch": "2.13.0",
        "programs": [row, {**row, "without": "the CPU", "difference": 0}],
    }
    assert rows(found) == [
        ["one 1.2", "a call() there", "Error: no", "nothing", "2e-07", "1.24"],
        ["one 1.2", "a call() there", "on the CPU", "nothing", "none", "1.24"],
    ]
    made, date = library_table.parts(found)
    assert [node.astext() for node in made.findall(nodes.literal)] == ["call()", "Error: no", "call()"]
    assert date.astext().startswith(
        "2 programs of 1 libraries, run by make libraries on 2026-01-02 with PyTorch 2.13.0"
    )
