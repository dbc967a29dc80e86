"""How many of many processes end as they should: each in one of the ways of examples/errors_exit.py.

    python benchmarks/process_exit.py                      200 processes for each of the first two ways
    python benchmarks/process_exit.py --runs 5 by-sigterm  5 in the way that is named; writes no result

The processes are children of this one, which has imported torch and not used the device: each starts the driver and
autograd's threads of its own, and goes through the whole end of an interpreter. A crash is a status other than the one
that the way is to end with; so is a process that has not ended after a minute (status -14, SIGALRM). It writes
benchmarks/results/process_exit.md, and ends with status 1 if a process did not end as it should.
"""

from __future__ import annotations

import argparse
import os
import platform
import runpy
import sys
from collections import Counter
from datetime import date
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results" / "process_exit.md"
EXAMPLE = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "errors_exit.py"))


def statuses(way: str, runs: int, jobs: int) -> Counter[int]:
    """How often each exit status was seen; a negative one is the signal that killed the process."""
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


def main() -> None:
    """Runs the ways that the command line names, or the first two."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(EXAMPLE["WAYS"]))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    lines = [
        f"Made by `python benchmarks/process_exit.py --runs {asked.runs}` on {platform.machine()}, "
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
        RESULTS.write_text("\n".join(lines) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
