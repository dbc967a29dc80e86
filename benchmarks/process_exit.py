"""Counts how many processes end as expected, each in one of the ways of examples/errors_exit.py.

    python benchmarks/process_exit.py                      200 processes for each of the first two ways
    python benchmarks/process_exit.py --runs 5 by-sigterm  5 in the way that is named; writes no result
    python benchmarks/process_exit.py --ends               200 for each of the ways of tests/runtime/ends.py, in each of
                                                           two launch modes; writes benchmarks/results/process_ends.md,
                                                           and replaces only the rows of the ways that are named

The processes are children of this one, which has imported torch but not used the device: each starts its own driver and
autograd threads, and runs the full interpreter shutdown. A status other than the expected one of the way is a crash, as
is a process that has not ended after a minute (status -14, SIGALRM). It writes benchmarks/results/process_exit.md, and
exits with status 1 if a process did not end as expected.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import runpy
import subprocess
import sys
from collections import Counter
from dataclasses import astuple
from datetime import date
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results" / "process_exit.md"
ENDS = RESULTS.with_name("process_ends.md")
ROOT = Path(__file__).parents[1]
EXAMPLE = runpy.run_path(str(ROOT / "examples" / "errors_exit.py"))
sys.path.insert(0, str(ROOT))
sys.path.append(str(ROOT / "tools"))

from driver import installed, result  # noqa: E402  # found by the line above

from tests.runtime import ends  # noqa: E402  # found by the line above


def statuses(way: str, runs: int, jobs: int) -> Counter[int]:
    """The number of occurrences of each exit status; a negative one is the signal that killed the process."""
    seen: Counter[int] = Counter()
    for first in range(0, runs, jobs):
        with open(os.devnull, "w") as nothing:
            children = [EXAMPLE["start"](way, nothing.fileno()) for _ in range(min(jobs, runs - first))]
        for child in children:
            seen[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])] += 1
    return seen


def row(way: str, seen: Counter[int]) -> str:
    """One line of the table."""
    expected = EXAMPLE["WAYS"][way][1]
    others = ", ".join(f"{status}: {count}" for status, count in sorted(seen.items()) if status != expected)
    return f"| {way} | {seen.total()} | {expected} | {seen[expected]} | {others or 'none'} |"


def tabulate_ends(ways: list[str], runs: int, jobs: int, modes: list[str]) -> bool:
    """Measures the ways of tests/runtime/ends.py, and keeps the rows of those not in ``ways``.

    Returns whether a process did not end as expected.
    """
    subprocess.run([sys.executable, "glue.py"], cwd=ends.PYTHON_BACKEND, capture_output=True, check=True)
    rows = kept_rows()
    failed = False
    for mode, way in itertools.product(modes, ways):
        command = [sys.executable, ends.__file__, way, "--runs", str(runs), "--jobs", str(jobs), "--modes", mode]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        found = [json.loads(line)[2:] for line in ran.stdout.splitlines()]
        expected = list(astuple(ends.expected(way)))
        others = Counter(
            f"{status} {' '.join(error[-1:])}".strip()
            for status, out, error in found
            if [status, out, tuple(error)] != expected
        )
        failed |= bool(others)
        text = ", ".join(f"{count} times {what}" for what, count in others.items()) or "none"
        good = len(found) - others.total()
        status = ends.WAYS[way].status
        rows[way, mode] = f"| {way} | {status} | {mode} | {len(found)} | {good} | {text} | {date.today()} |"
        print(rows[way, mode], flush=True)
        write_ends(rows)  # after each row: all of them take an hour and a half
    return failed


def kept_rows() -> dict[tuple[str, str], str]:
    """The rows of the existing table, by way and mode."""
    rows = {}
    for line in ENDS.read_text().splitlines() if ENDS.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in ends.WAYS:
            rows[cells[0], cells[2]] = line
    return rows


def write_ends(rows: dict[tuple[str, str], str]) -> None:
    """Writes the table in the order of the ways."""
    lines = [
        f"Made by `python benchmarks/process_exit.py --ends` on {installed()}; {platform.machine()}, "
        f"{torch.__version__}, Python {platform.python_version()}. As it should: with the status and the output "
        "expected, and nothing on stderr that does not belong there.",
        "",
        "| way to end | expected status | launch mode | processes | as it should | others | measured |",
        "| --- | ---: | --- | ---: | ---: | --- | --- |",
    ]
    lines += [rows[way, mode] for mode in ("auto", "async") for way in ends.WAYS if (way, mode) in rows]
    result(ENDS).write_text("\n".join(lines) + "\n")


def main() -> None:
    """Runs the ways that the command line names, or the first two."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "ways",
        nargs="*",
        metavar="WAY",
        help="; ".join([", ".join(EXAMPLE["WAYS"]), "with --ends: " + ", ".join(ends.WAYS)]),
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ends", action="store_true", help="the ways of tests/runtime/ends.py instead")
    parser.add_argument("--modes", nargs="+", default=["auto", "async"], help="launch modes of those")
    asked = parser.parse_args()
    if asked.ends:
        sys.exit(tabulate_ends(asked.ways or list(ends.WAYS), asked.runs, asked.jobs, asked.modes))
    lines = [
        f"Made by `python benchmarks/process_exit.py --runs {asked.runs}` on {installed()}; {platform.machine()}, "
        f"{torch.__version__}, Python {platform.python_version()}, {asked.jobs} at a time, {date.today()}.",
        "",
        "| way to end | processes | expected status | had it | others |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    failed = False
    for way in asked.ways or list(EXAMPLE["WAYS"])[:2]:
        seen = statuses(way, asked.runs, asked.jobs)
        failed |= seen[EXAMPLE["WAYS"][way][1]] < asked.runs
        lines.append(row(way, seen))
        print(lines[-1], flush=True)
    if not asked.ways:
        result(RESULTS).write_text("\n".join(lines) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
