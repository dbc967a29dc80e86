"""The outcomes of a run: kept as JSON, written each second and at the end, and shown in the terminal and as a page."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, TypeVar

from accelerator_conformance.isolation import Outcome

if TYPE_CHECKING:
    import pytest

OUTCOMES = ("passed", "failed", "crashed", "hung", "not offered")
SECONDS_BETWEEN_WRITES = 1.0
FORMAT = 1
_Part = TypeVar("_Part", "Check", Outcome)
SHOWN_OF_A_REASON = 200
SHOWN_ALIKE = 3  # of the failures of one check with different parameters
# PyTorch calls these on every device but the CPU, beyond the reach of the fallback; a failure in one has the same cure.
ASKED_OF_DEVICES = (
    "convolution_overrideable",
    "convolution_backward_overrideable",
    "_thnn_fused_lstm_cell",
    "_thnn_fused_gru_cell",
)
THEIR_CHAPTER = "nn_contracts"


def identity(item: pytest.Item) -> str:
    """The name of a check: area/what[parameters]."""
    return f"{area_of(item)}/{item.name.removeprefix('test_')}"


def area_of(item: pytest.Item) -> str:
    """The area of a check is the file that it is in."""
    return item.path.stem.removeprefix("test_")


@dataclass(frozen=True)
class Check:
    """A check: its name, the sentence that says what it asks, its level, and the chapter of the guide with the cure."""

    name: str
    asks: str
    level: str
    chapter: str


@dataclass(frozen=True)
class Score:
    """The outcomes of one area, or of one level."""

    area: str
    counts: dict[str, int]

    @property
    def asked(self) -> int:
        """The number of checks that apply: all but those of what the backend does not offer."""
        return sum(self.counts.values()) - self.counts.get("not offered", 0)

    @property
    def percent(self) -> int | None:
        """The percentage that passed, rounded down so that only all is 100; None if no check applied."""
        return 100 * self.counts["passed"] // self.asked if self.asked else None


def tally(outcomes: Iterable[tuple[str, Outcome]]) -> list[Score]:
    """One score for each subject, in the order of their first outcomes."""
    subjects: dict[str, dict[str, int]] = {}
    for subject, outcome in outcomes:
        subjects.setdefault(subject, dict.fromkeys(OUTCOMES, 0))[outcome.outcome] += 1
    return [Score(subject, counts) for subject, counts in subjects.items()]


def _part(kind: type[_Part], check: dict[str, Any]) -> _Part:
    """The check or the outcome in what a report has of a check."""
    return kind(**{key: check[key] for key in kind.__dataclass_fields__})


def read(file: Path) -> tuple[dict[str, Any], dict[str, Outcome]]:
    """A report and the outcomes in it. Throws: `ValueError` if the file is not a report of this kit."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from None
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError(f"{file} is JSON, and no report of this kit")
    if content["format"] != FORMAT:
        raise ValueError(f"{file} is of another version of the kit: format {content['format']!r}, and not {FORMAT}")
    try:
        content["run"] = dict(content["run"])
        outcomes = {check["name"]: _part(Outcome, check) for check in content["checks"]}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is no whole report of this kit: {type(error).__name__}: {error}") from None
    if unknown := {outcome.outcome for outcome in outcomes.values()} - set(OUTCOMES):
        raise ValueError(f"{file} has outcomes that there are not: {', '.join(sorted(map(str, unknown)))}")
    return content, outcomes


class Report:
    """The outcomes so far, and the options of the run."""

    def __init__(self, folder: Path, run: dict[str, str]) -> None:
        self.folder, self.run = folder, run
        self.results: dict[str, tuple[Check, Outcome]] = {}
        self.fault = ""
        self._written = 0.0

    def add(self, check: Check, outcome: Outcome) -> None:
        """Adds an outcome, and writes the report from time to time."""
        if outcome.outcome == "failed" and any(name in outcome.reason for name in ASKED_OF_DEVICES):
            check = replace(check, chapter=THEIR_CHAPTER)
        self.results[check.name] = check, outcome
        if time.monotonic() - self._written > SECONDS_BETWEEN_WRITES:
            with suppress(OSError):  # the run goes on; the write at its end says what is wrong
                self.write()

    def scores(self) -> list[Score]:
        """One for each area, in the order of the run."""
        return tally((name.partition("/")[0], outcome) for name, (_, outcome) in self.results.items())

    def ended(self, *outcomes: str) -> Iterable[tuple[Check, Outcome]]:
        """The checks that ended in one of these ways."""
        return [(check, outcome) for check, outcome in self.results.values() if outcome.outcome in outcomes]

    @property
    def file(self) -> Path:
        """The path of the JSON file."""
        return self.folder / "report.json"

    def write(self) -> None:
        """Writes the JSON file atomically: readers always see a whole file. Throws: `OSError`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        checks = [asdict(check) | asdict(outcome) for check, outcome in self.results.values()]
        scores = {score.area: {"percent": score.percent, **score.counts} for score in self.scores()}
        content = {"format": FORMAT, "run": self.run, "fault": self.fault, "scores": scores, "checks": checks}
        partial = self.file.with_suffix(".partial")
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, self.file)
        self._written = time.monotonic()

    def earlier(self) -> dict[str, tuple[Check, Outcome]]:
        """The checks and outcomes of an interrupted run. Throws: `ValueError` if there is none that matches."""
        if not self.file.is_file():
            raise ValueError(f"there is no run to resume: {self.file} does not exist")
        content, outcomes = read(self.file)
        for key, value in self.run.items():
            if key != "began" and content["run"].get(key) != value:
                was = content["run"].get(key)
                raise ValueError(f"{self.file} is of a run with {key} {was!r}, not {value!r}")
        return {check["name"]: (_part(Check, check), outcomes[check["name"]]) for check in content["checks"]}


def chapter_place(chapter: str, guide: str) -> str:
    """The address of a chapter, or "" if the address of the guide is not known."""
    return f"{guide.rstrip('/')}/{chapter}.html" if guide else ""


def terminal(report: Report, guide: str = "") -> list[str]:
    """The scores, then what failed and where the cure is, then what the backend does not offer."""
    lines = [f"{'':16}  score  {'  '.join(OUTCOMES)}"]
    for score in report.scores():
        percent = "    -" if score.percent is None else f"{score.percent:3} %"
        counts = "  ".join(f"{score.counts[outcome] or '.':>{len(outcome)}}" for outcome in OUTCOMES)
        lines.append(f"{score.area:16}  {percent}  {counts}")
    alike = groupby(report.ended("failed", "crashed", "hung"), lambda ended: ended[0].name.partition("[")[0])
    for name, failures in ((name, list(ended)) for name, ended in alike):
        for check, outcome in failures[:SHOWN_ALIKE]:
            lines += ["", f"{outcome.outcome}: {check.name}", f"  asks    {check.asks}", f"  reason  {outcome.reason}"]
            place = chapter_place(check.chapter, guide)
            lines.append(f"  cure    chapter '{check.chapter}' of the guide" + (f": {place}" if place else ""))
        if len(failures) > SHOWN_ALIKE:
            lines += ["", f"and {len(failures) - SHOWN_ALIKE} more of {name}, which are in the report"]
    reasons: dict[str, list[str]] = {}
    for check, outcome in report.ended("not offered"):
        reasons.setdefault(outcome.reason, []).append(check.name)
    if report.fault:
        lines += ["", *report.fault.splitlines()]
    if reasons:
        lines += ["", "not offered:"]
    for reason, names in reasons.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines.append(f"  {names[0]}{more}: {shorten(reason, SHOWN_OF_A_REASON)}")
    return lines
