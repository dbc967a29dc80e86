"""The tables of releases show what was found, and no difference goes without a cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import next_torch
import pytest
from docutils import nodes
from prerequisites import torch_releases

from docs._ext import release_table

OTHER = torch_releases()[1]
CAUSES = """
[test]
"tests/a.py::*" = "PyTorch raises earlier"
[opinfo]
"add, *" = "PyTorch rounds otherwise"
"mul, out, bool" = "PyTorch has mended it"
[doctest]
"a/b: *text" = "PyTorch says more"
"a/b: 1 + 1" = "PyTorch counts otherwise"
"""


@pytest.fixture
def found(tmp_path: Path) -> release_table._Found:
    """Results of one release, in a repository of their own."""
    steps: dict[str, Any] = {
        "surface": {
            "date": "2026-11-26", "passed": True,
            "changes": {"A in a.h": ["-f()", "+f(int)"], "kernels": ["-k: X", "-o: X", "+k: X, Y", "+n: Z"]},
        },
        "build": {"date": "2026-11-26", "passed": False, "errors": ["a", "b"]},
        "test": {
            "date": "2026-11-26", "passed": False, "tests": 7000, "failures": 1, "skipped": 9,
            "failed": {"tests/a.py::test_x[1]": "why"},
        },
        "opinfo": {
            "date": "2026-11-26", "passed": False, "units": 1500, "units_passed": 1490,
            "differ": {"add, forward, int64": "failed", "add, out, int64": "failed", "mul, out, bool": "passed"},
        },
        "doctest": {
            "date": "2026-11-26", "passed": False, "examples": {"a/b": 9, "a/c": 5},
            "faults": {"a/b": ["3: text", "5: more text", "9: 1 + 1"]},
        },
    }  # fmt: skip
    folder = tmp_path / next_torch.RESULTS
    folder.mkdir(parents=True)
    (folder / f"{OTHER}.json").write_text(json.dumps({"torch": OTHER, "steps": steps}))
    (tmp_path / release_table.CAUSES).write_text(CAUSES)
    return release_table._Found(tmp_path)


def rows(found: release_table._Found, part: str, release: str = "") -> list[list[str]]:
    (node,) = release_table.PARTS[part](found, release)
    return [[entry.astext() for entry in row.findall(nodes.entry)] for row in node.findall(nodes.row)][1:]


def test_each_release_has_a_row(found: release_table._Found) -> None:
    day = "2026\N{NON-BREAKING HYPHEN}11\N{NON-BREAKING HYPHEN}26"
    listed = rows(found, "summary")
    assert [row[0] for row in listed] == list(torch_releases())
    assert listed[1][1:] == [
        f"3 lines new, 3 gone ({day})",
        f"2 errors ({day})",
        f"1 of 7,000 fail, 9 skipped ({day})",
        f"1,497 of 1,500 units do the same ({day})",
        f"1 of 2 tried hold ({day})",
    ]
    assert listed[-1][1:] == ["not tried"] * 5


def test_parts_list_what_was_found(found: release_table._Found) -> None:
    assert rows(found, "surface", OTHER) == [
        ["A", "- f()\n\n+ f(int)"],
        ["kernels", "k: X → X, Y\n\n- o: X\n\n+ n: Z"],
    ]
    assert rows(found, "tests", OTHER) == [["tests/a.py::test_x[1]", "why", "PyTorch raises earlier"]]
    assert rows(found, "operators", OTHER) == [
        ["add", "forward, int64\n\nout, int64", "failed: PyTorch rounds otherwise"],
        ["mul", "out, bool", "passed: PyTorch has mended it"],
    ]
    assert rows(found, "pages", OTHER) == [
        ["a/b", "3: text\n\n5: more text", "PyTorch says more"],
        ["a/b", "9: 1 + 1", "PyTorch counts otherwise"],
    ]
    assert list(found.useless()) == []
    (nothing,) = release_table.PARTS["tests"](found, torch_releases()[-1])
    assert nothing.astext() == f"Not tried with {torch_releases()[-1]}."


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ({"passed": True, "failed": {}}, "No test fails."),
        ({"passed": False, "error": "the build failed"}, "It did not get that far: the build failed"),
    ],
)
def test_a_table_without_rows_says_why(found: release_table._Found, step: dict[str, Any], text: str) -> None:
    file = found.root / next_torch.RESULTS / f"{OTHER}.json"
    file.write_text(json.dumps({"torch": OTHER, "steps": {"test": step}}))
    (nothing,) = release_table.PARTS["tests"](found, OTHER)
    assert nothing.astext() == text


@pytest.mark.parametrize(
    ("part", "difference"),
    [("tests", r"tests/a\.py::test_x\[1\]"), ("operators", "add, forward, int64"), ("pages", "a/b: text")],
)
def test_a_difference_without_a_cause_is_a_fault(found: release_table._Found, part: str, difference: str) -> None:
    (found.root / release_table.CAUSES).write_text("")
    with pytest.raises(release_table.Untold, match=f"^{difference} differs with PyTorch {OTHER}, and .* not say why$"):
        list(release_table.PARTS[part](found, OTHER))


def test_a_cause_without_a_difference_is_a_fault(found: release_table._Found) -> None:
    (found.root / release_table.CAUSES).write_text(CAUSES.replace("add, *", "sub, *"))
    assert list(found.useless()) == [
        f"{release_table.CAUSES}: no release differs in opinfo by 'sub, *': remove it",
    ]
