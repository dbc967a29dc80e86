"""``{release-table}``: what `make next` found with the releases of PyTorch after the reference.

The argument selects a part: ``summary`` has a row for each release of `[tool.torch]`; ``surface 2.14`` lists what has
changed of the parts that a backend depends on, ``tests 2.14`` the tests that fail, ``operators 2.14`` the units of the
operator database that do something else than with the reference, and ``pages 2.14`` what does not hold on the pages.
Each has its cause. Causes are written by hand, in ``docs/proof/releases/causes.toml``, by step and by a pattern of what
differs. A difference without a cause is a fault, and so is a cause without a difference.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import next_torch
from docutils import nodes
from prerequisites import torch_releases, torch_series
from sphinx.util.docutils import SphinxDirective
from weaver.pages.proven_tables import table
from weaver.pages.repository import report, root_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from docutils.nodes import Node
    from sphinx.application import Sphinx
    from weaver.pages.proven_tables import Cell

CAUSES = next_torch.RESULTS / "causes.toml"
_NOT_TRIED = "not tried"


class Untold(Exception):
    """What a page cannot say; its text is the fault."""


@dataclass(frozen=True)
class _Found:
    """The releases, and the results of trying them."""

    root: Path

    @cached_property
    def releases(self) -> tuple[str, ...]:
        return torch_releases()

    @cached_property
    def causes(self) -> dict[str, dict[str, str]]:
        """By step, and by a pattern of what differs, why it does."""
        text = (self.root / CAUSES).read_text(encoding="utf-8")
        causes: dict[str, dict[str, str]] = tomllib.loads(text)
        return causes

    def result(self, release: str) -> dict[str, Any]:
        """What each step found."""
        file = self.root / next_torch.RESULTS / f"{release}.json"
        if not file.is_file():
            return {}
        steps: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["steps"]
        return steps

    def differences(self, release: str, step: str) -> Iterator[str]:
        """What differs in a step, as the patterns of the causes are compared with it."""
        result = self.result(release).get(step, {})
        yield from result.get("failed", {})
        yield from result.get("differ", {})
        for page, places in result.get("faults", {}).items():
            yield from (f"{page}: {_text(place)}" for place in places)

    def cause(self, release: str, step: str, difference: str) -> str:
        """Why something differs. Throws: ``Untold``."""
        causes = self.causes.get(step, {})
        known = next((why for pattern, why in causes.items() if fnmatchcase(difference, pattern)), None)
        if known is None:
            raise Untold(f"{difference} differs with PyTorch {release}, and {CAUSES} does not say why")
        return known

    def useless(self) -> Iterator[str]:
        """Causes without a difference, of any release."""
        for step, causes in self.causes.items():
            differences = [one for release in self.releases for one in self.differences(release, step)]
            for pattern in causes:
                if not any(fnmatchcase(one, pattern) for one in differences):
                    yield f"{CAUSES}: no release differs in {step} by {pattern!r}: remove it"


def _text(place: str) -> str:
    """What differs, without its line."""
    return place.partition(": ")[2]


def _summary(found: _Found, _release: str) -> Iterator[Node]:
    rows: list[list[Cell]] = []
    for release in found.releases:
        steps = found.result(release)
        if release == found.releases[0]:
            rows.append([release, "the reference", "", "", "", ""])
        else:
            cells = [_cell(steps.get(step)) for step in next_torch.STEPS]
            rows.append([release, *cells])
    yield table(["PyTorch", "Surface", "Build", "Tests", "Operator database", "Pages"], rows)


def _cell(step: dict[str, Any] | None) -> str:
    if step is None:
        return _NOT_TRIED
    day = step["date"].replace("-", "\N{NON-BREAKING HYPHEN}")
    return f"{_words(step)} ({day})"


def _words(step: dict[str, Any]) -> str:
    """What a step found, in a few words."""
    if "error" in step:
        return str(step["error"])
    if "changes" in step:
        lines = [line for lines in step["changes"].values() for line in lines]
        return f"{sum(line[0] == '+' for line in lines)} lines new, {sum(line[0] == '-' for line in lines)} gone"
    if "errors" in step:
        return "no error" if step["passed"] else f"{len(step['errors'])} errors"
    if "failed" in step:
        return f"{step['failures']} of {step['tests']:,} fail, {step['skipped']:,} skipped"
    if "faults" in step:
        return f"{len(step['examples'].keys() - step['faults'].keys())} of {len(step['examples'])} tried hold"
    return f"{step['units'] - len(step['differ']):,} of {step['units']:,} units do the same"


def _surface(found: _Found, release: str) -> Iterator[Node]:
    rows: list[list[Cell]] = []
    for part, lines in found.result(release).get("surface", {}).get("changes", {}).items():
        listed = nodes.bullet_list("", *(nodes.list_item("", nodes.paragraph("", "", each)) for each in _lines(lines)))
        rows.append([nodes.literal("", part.partition(" in ")[0]), listed])
    yield _wrapping(["Part", "Change"], rows, _otherwise(found, release, "surface", "Nothing has changed."))


def _lines(lines: list[str]) -> Iterator[Node]:
    """Each line that is new or gone; as one, if it names the same before its colon: ``name: old → new``."""
    of = {sign: dict(line[1:].split(": ", 1) for line in lines if line[0] == sign and ": " in line) for sign in "-+"}
    for line in lines:
        name = line[1:].partition(": ")[0]
        if name not in of["-"] or name not in of["+"]:
            yield nodes.literal("", f"{line[0]} {line[1:]}")
        elif line[0] == "-":
            yield nodes.literal("", f"{name}: {of['-'][name]} → {of['+'][name]}")


def _tests(found: _Found, release: str) -> Iterator[Node]:
    failed = found.result(release).get("test", {}).get("failed", {})
    rows: list[list[Cell]] = [
        [nodes.literal("", test), nodes.literal("", message), found.cause(release, "test", test)]
        for test, message in sorted(failed.items())
    ]
    yield _wrapping(["Test", "Message", "Cause"], rows, _otherwise(found, release, "test", "No test fails."))


def _operators(found: _Found, release: str) -> Iterator[Node]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for unit, outcome in sorted(found.result(release).get("opinfo", {}).get("differ", {}).items()):
        entry, mode, dtype = unit.rsplit(", ", 2)
        groups.setdefault((entry, outcome, found.cause(release, "opinfo", unit)), []).append(f"{mode}, {dtype}")
    rows: list[list[Cell]] = [
        [nodes.literal("", entry), _listed(units), f"{outcome}: {why}"]
        for (entry, outcome, why), units in groups.items()
    ]
    otherwise = _otherwise(found, release, "opinfo", "Every unit does what it does with the reference.")
    yield _wrapping(["Entry", "Units", "Outcome, and its cause"], rows, otherwise)


def _pages(found: _Found, release: str) -> Iterator[Node]:
    faults = found.result(release).get("doctest", {}).get("faults", {})
    groups: dict[tuple[str, str], list[str]] = {}
    for page, places in sorted(faults.items()):
        for place in places:
            groups.setdefault((page, found.cause(release, "doctest", f"{page}: {_text(place)}")), []).append(place)
    rows: list[list[Cell]] = [[nodes.literal("", page), _listed(places), why] for (page, why), places in groups.items()]
    otherwise = _otherwise(found, release, "doctest", "No page differs.")
    yield _wrapping(["Page", "Line, and what differs", "Cause"], rows, otherwise)


def _listed(lines: list[str]) -> nodes.bullet_list:
    items = (nodes.list_item("", nodes.paragraph("", "", nodes.literal("", line))) for line in lines)
    return nodes.bullet_list("", *items)


def _otherwise(found: _Found, release: str, step: str, text: str) -> str:
    """What stands in the place of a table without rows: a step that found nothing, one that failed, or none."""
    result = found.result(release).get(step)
    if result is None:
        return f"Not tried with {release}."
    return f"It did not get that far: {result['error']}" if "error" in result else text


def _wrapping(headers: list[str], rows: list[list[Cell]], otherwise: str) -> Node:
    if not rows:
        return nodes.paragraph("", otherwise)
    made = table(headers, rows)
    assert isinstance(made, nodes.table)
    made["classes"].append("wrapping")
    return made


PARTS: dict[str, Callable[[_Found, str], Iterator[Node]]] = {
    "summary": _summary,
    "surface": _surface,
    "tests": _tests,
    "operators": _operators,
    "pages": _pages,
}


class ReleaseTable(SphinxDirective):
    """A part of what is known about the releases."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[Node]:
        """Return the part; report a fault and return nothing if there is no such part or series."""
        found = _Found(root_of(self.config))
        part, series = self.arguments[0], self.arguments[1] if len(self.arguments) > 1 else ""
        others = {torch_series(release): release for release in found.releases[1:]}
        if part not in PARTS or (part != "summary" and series not in others):
            known = f"{', '.join(PARTS)}; all but the first with a series, {', '.join(others)}"
            report(
                self.env.docname,
                self.lineno,
                f"release-table: no part `{part} {series}`; there are: {known}",
                "release",
            )
            return []
        for release in others.values():
            self.env.note_dependency(str(found.root / next_torch.RESULTS / f"{release}.json"))
        self.env.note_dependency(str(found.root / CAUSES))
        if part == "summary":
            for fault in found.useless():
                report(self.env.docname, self.lineno, f"release-table: {fault}", "release")
        try:
            return list(PARTS[part](found, others.get(series, "")))
        except Untold as fault:
            report(self.env.docname, self.lineno, f"release-table: {fault}", "release")
            return []


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("release-table", ReleaseTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
