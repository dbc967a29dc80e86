"""The tables of states show what was tried, and link to sections that exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from docutils import nodes
from sphinx.config import Config
from vendor import state_trials
from vendor.states import States
from weaver.configuration import load

from docs._ext import state_table

ROOT = Path(__file__).parents[2]


def found() -> state_table._Found:
    return state_table._Found(ROOT, Config({}, {}))


def rows(part: str, number: int = 0) -> list[list[str]]:
    """The cells of a part that is a table, as text."""
    (node,) = state_table.PARTS[part](found(), number)
    return [[entry.astext() for entry in row.findall(nodes.entry)] for row in node.findall(nodes.row)][1:]


def shown(word: str) -> str:
    """A recorded word as a reader sees it: an assertion of the program itself has no text."""
    return "a wrong result, without an error" if word == "AssertionError: " else word


@pytest.mark.long
def test_each_state_has_a_row() -> None:
    states = States(ROOT).all
    assert [row[0] for row in rows("states")] == [f"{state.number} {state.title}" for state in states]
    programs = len(States(ROOT).programs)
    assert rows("states")[-1][4] == str(programs)


def test_a_program_is_listed_at_the_state_from_which_it_works() -> None:
    listed = {row[0]: row for row in rows("programs")}
    assert set(listed) == set(States(ROOT).programs)
    results = state_trials.read()
    for name, (_, first, error) in listed.items():
        assert results[first]["programs"][name] == state_trials.WORKS
        if first != "1":
            before = results[str(int(first) - 1)]["programs"][name]
            assert before != state_trials.WORKS
            assert error == shown(before)


def test_errors_that_are_left_are_grouped() -> None:
    for state in States(ROOT).all[:-1]:
        words = state_trials.read()[str(state.number)]["programs"]
        left = {name: shown(word) for name, word in words.items() if word != state_trials.WORKS}
        listed = {name: error for error, names in rows("left", state.number) for name in names.split("; ")}
        assert listed == left


@pytest.mark.long
def test_the_tables_depend_on_every_source_that_they_count() -> None:
    depends_on = set(state_table.depends_on(load(ROOT)))
    every = found().sources[-1]
    assert len(every) > 300
    assert {ROOT / path for path in every} <= depends_on
    assert {ROOT / "docs/source/accelerator/states.md", ROOT / "tools/vendor/states.toml"} <= depends_on


@pytest.mark.long
def test_the_row_of_a_state_leads_to_its_section() -> None:
    page = (ROOT / "docs" / "source" / "accelerator" / "states.md").read_text(encoding="utf-8")
    sections = {nodes.make_id(line.removeprefix("## ")) for line in page.splitlines() if line.startswith("## ")}
    (node,) = state_table.PARTS["states"](found(), 0)
    targets = [reference["refid"] for reference in node.findall(nodes.reference)]
    assert len(targets) == len(States(ROOT).all)
    assert set(targets) <= sections
