"""Reports where the time of the checks goes: the steps of CI, the slowest pages, tests and static checks.

Runs nothing: each target records the seconds of its last run (`make test` those of its last run of all tests), and this
script reads them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
RESULT = Path("benchmarks", "results", "loop.md")
SHOWN = 10


class Table(NamedTuple):
    """A table of durations: its title, the file it comes from, the command that writes that file, its rows."""

    title: str
    file: Path
    command: str
    rows: list[tuple[float, str]]


def tables(root: Path = ROOT) -> Iterator[Table]:
    """All tables; one whose file does not exist has no rows."""
    loop = root / "build" / "loop"
    steps, checks, tests = loop / "steps.tsv", loop / "checks.tsv", loop / "tests.xml"
    proof = root / "docs" / "build" / "doctest" / "proof.json"
    yield Table("Steps of `.ci/run`, in their order", steps, ".ci/run", lines(steps))
    yield Table(f"The {SHOWN} slowest pages", proof, "make doctest", slowest(pages(proof)))
    yield Table(f"The {SHOWN} slowest files of tests", tests, "make test", slowest(files(tests)))
    yield Table(f"The {SHOWN} slowest tests", tests, "make test", slowest(cases(tests)))
    yield Table("Static checks", checks, "make check", sorted(lines(checks), reverse=True))


def lines(file: Path) -> list[tuple[float, str]]:
    """The lines of a file, each of them seconds, a tab and a name."""
    if not file.is_file():
        return []
    rows = (line.partition("\t") for line in file.read_text(encoding="utf-8").splitlines())
    return [(float(seconds), f"`{name}`") for seconds, _, name in rows]


def pages(proof: Path) -> list[tuple[float, str]]:
    """The seconds that the examples of each page took."""
    if not proof.is_file():
        return []
    found = json.loads(proof.read_text(encoding="utf-8"))["pages"]
    return [(page["seconds"], f"`{name}`") for name, page in found.items()]


def cases(junit: Path) -> list[tuple[float, str]]:
    """The seconds of each test, including its fixtures."""
    if not junit.is_file():
        return []
    return [
        (float(case.get("time", 0)), f"`{case.get('classname')}::{case.get('name')}`")
        for case in ElementTree.parse(junit).iter("testcase")
    ]


def files(junit: Path) -> list[tuple[float, str]]:
    """The seconds of each test file."""
    total: defaultdict[str, float] = defaultdict(float)
    for seconds, name in cases(junit):
        total[name.partition("::")[0].removeprefix("`")] += seconds
    return [(seconds, f"`{name}`") for name, seconds in total.items()]


def slowest(rows: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """The slowest rows, slowest first."""
    return sorted(rows, reverse=True)[:SHOWN]


def text(table: Table) -> str:
    """A table as Markdown."""
    if not table.rows:
        return f"## {table.title}\n\nNot known: `{table.command}` leaves `{table.file.name}`, which is not there.\n"
    rows = "".join(f"| {seconds:.1f} | {name.replace('|', '/')} |\n" for seconds, name in table.rows)
    ran = date.fromtimestamp(table.file.stat().st_mtime)
    return f"## {table.title}\n\n`{table.command}` of {ran}.\n\n| seconds | |\n| ---: | --- |\n{rows}"


def main() -> None:
    """Writes the result."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} processors"
    head = f"# Where the time of the loop goes\n\nMade by `python benchmarks/loop.py` on {machine}, {date.today()}.\n"
    (ROOT / RESULT).write_text("\n".join([head, *map(text, tables())]), encoding="utf-8")
    print(f"{RESULT} is written")


if __name__ == "__main__":
    main()
