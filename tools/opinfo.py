"""``make opinfo``: runs every unit of PyTorch's operator database, and writes a table of how many pass.

Some fifteen thousand units take five minutes on two processors. A mode that has run is not repeated while backend,
driver and tests are unchanged. The result is committed; `make check` reports when it is out of date.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from driver import about_device, chosen, installed, result
from environment import Fault, say
from prerequisites import installed_torch
from results import OPINFO

from tests.opinfo import exceptions
from tests.opinfo.exceptions import DTYPES, MODES, Exceptions

RECORDS = Path("docs", "build", "opinfo")
GOAL = 0.995
_FAILURES = re.compile(r"^=+ (?:ERRORS|FAILURES) =+$", re.MULTILINE)


@dataclass
class Outcome:
    """The outcomes of the units of one mode and dtype; units apart count neither as passed nor as failed."""

    passed: int = 0
    failed: int = 0
    apart: int = 0

    @property
    def share(self) -> float:
        """The fraction of units that pass, without units apart."""
        return self.passed / max(self.passed + self.failed, 1)


class Result:
    """The outcome of all units, compared with the list of exceptions."""

    def __init__(self, records: Iterable[Path]) -> None:
        self.columns: dict[tuple[str, str], Outcome] = defaultdict(Outcome)
        self.failing: dict[str, Counter[str]] = defaultdict(Counter)  # by reason, the units of each entry
        self.wrong: list[str] = []
        listed = exceptions.read()
        for record in records:
            for line in record.read_text(encoding="utf-8").splitlines():
                self._add(listed, *json.loads(line))

    def _add(self, listed: list[Exceptions], entry: str, mode: str, dtype: str, outcome: str) -> None:
        excuse = exceptions.excused(listed, entry, mode, dtype)
        column = self.columns[mode, dtype]
        if excuse is not None and excuse.apart:
            column.apart += 1
        elif outcome == "passed":
            column.passed += 1
        else:
            column.failed += 1
        if (outcome == "passed") != (excuse is None):
            self.wrong.append(f"{entry}, {mode}, {dtype}: {outcome}, and {'is' if excuse else 'is not'} listed")
        elif excuse is not None:
            self.failing[excuse.reason][entry] += 1

    def page(self) -> str:
        """The tables."""
        lines = [
            f"Made by `make opinfo` on {date.today()}, with PyTorch {installed_torch()}; {about_device()}.",
            "",
            f"| | {' | '.join(mode.replace('_', ' ') for mode in MODES)} |",
            f"| --- | {' | '.join('---:' for _ in MODES)} |",
        ]
        for dtype in DTYPES:
            lines.append(f"| {dtype} | {' | '.join(_cell(self.columns[mode, dtype]) for mode in MODES)} |")
        lines += ["", "| units that fail | entries | why |", "| ---: | --- | --- |"]
        for reason, entries in sorted(self.failing.items(), key=lambda item: -item[1].total()):
            names = ", ".join(f"`{name}`" for name in sorted(entries))
            lines.append(f"| {entries.total()} | {names} | {reason} |")
        return "\n".join(lines) + "\n"


def main() -> None:
    """Runs all units and writes the tables. Throws: ``Fault``, if a run crashes or the list of exceptions is wrong."""
    started = time.monotonic()
    about = installed()
    folder = RECORDS / (about.name if about else "unknown") / OPINFO.digest(driver=Path(chosen().folder))
    folder.mkdir(parents=True, exist_ok=True)
    workers = len(os.sched_getaffinity(0))
    to_run = [mode for mode in MODES if not (folder / mode).is_file()]
    say(f"{len(to_run)} of {len(MODES)} modes to run, {workers} at a time")
    with ThreadPoolExecutor(workers) as pool:
        ended = {pool.submit(_run, mode, folder): mode for mode in to_run}
        for done in as_completed(ended):
            say(f"{ended[done]}: {done.result()} ({time.monotonic() - started:.0f} s)")
    missing = [mode for mode in MODES if not (folder / mode).is_file()]
    if missing:
        raise Fault(f"make opinfo: {', '.join(missing)}: pytest ended before all units had run; see above")
    found = Result(folder / mode for mode in MODES)
    file = result(OPINFO.path)
    # The exceptions hold for the default driver. For another one, differences from them are listed below the tables.
    if found.wrong and file == OPINFO.path:
        raise Fault("\n".join([*found.wrong, f"make opinfo: {exceptions.FILE} is not what was seen; see above"]))
    columns = list(found.columns.values())
    file.write_text("\n".join([found.page(), *(f"- {line}" for line in found.wrong)]), encoding="utf-8")
    OPINFO.note()
    short = sum(column.share < GOAL for column in columns)
    passed, failed = sum(column.passed for column in columns), sum(column.failed for column in columns)
    print(
        f"make opinfo: {passed} of {passed + failed} units passed, {short} of {len(columns)} columns under {GOAL:.1%} "
        f"({time.monotonic() - started:.0f} s); the result is {file}"
    )


def _run(mode: str, folder: Path) -> str:
    """Runs the units of a mode. Keeps their record if the run was complete, and returns a summary."""
    partial = folder / f"{mode}.partial"
    partial.unlink(missing_ok=True)
    environment = {
        "OPENREG_OPINFO": "all",
        "OPENREG_OPINFO_RECORD": str(partial),
        "PYTORCH_TEST_WITH_SLOW": "1",
        "OMP_NUM_THREADS": "1",  # one process per processor
    }
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=short", "tests/opinfo"]
    ran = subprocess.run(
        [*command, "-k", f"test_{mode}_"],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        sys.stderr.write(told(ran.stdout) + ran.stderr)
    if ran.returncode in (0, 1):
        partial.rename(folder / mode)
    return "some unit differs from what is listed; see above" if ran.returncode else "done"


def told(output: str) -> str:
    """The report of failures in the output of ``pytest -v``, or the last unit if pytest did not get that far."""
    failures = _FAILURES.search(output)
    return output[failures.start() :] if failures else f"pytest ended in {output.splitlines()[-1]}\n" if output else ""


def _cell(outcome: Outcome) -> str:
    units = outcome.passed + outcome.failed
    if not outcome.failed:
        return f"all {units}" if units else "none"
    # Rounded down, so that only a full share reads as 100 %.
    return f"{int(outcome.share * 1000) / 10:.1f} % of {units}"
