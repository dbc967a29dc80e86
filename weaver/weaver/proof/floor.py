"""Checks whether the proof holds for the current tree, and that its figures do not fall below their floor.

This needs neither clang nor a build: it compares digests and committed figures.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path

from weaver.configuration import FILE, Configuration
from weaver.pages import narrated
from weaver.proof import equivalents, figures, proof_files
from weaver.proof.lines import EXCUSE
from weaver.proof.measured import Measured, Shown
from weaver.proof.planned import Page, read_pages
from weaver.proof.proof_files import LINES, MUTANTS, Proof
from weaver.sources.listing import Listing
from weaver.sources.regions import read_lines

FLOOR = "floor.json"
# The share of all displayed lines; a larger one would be a way around the proof.
MOST_EXCUSED = 0.01

# The meaning of each figure; only "narrated" applies to the whole site.
_NAMES = {
    "executed": "of the executable lines that are shown are executed",
    "killed": "of the mutants are killed",
    "examples": "examples run",
    "narrated": "of the package's lines stand in a listing",
}
_WHOLE = "all pages"
# How many listings may have untried mutants: none, unless the floor, edited by hand, allows some. The pages mark such
# listings, and the figures exclude them.
_UNTRIED = "untried"

Figures = dict[str, dict[str, float]]


@dataclass(frozen=True)
class State:
    """The current pages, with their measurements."""

    configuration: Configuration
    measured: Measured


def read_state(configuration: Configuration, pages: list[Page] | None = None, proof: Proof | None = None) -> State:
    """Reads the pages and the proof files, unless the caller has them. Throws: ``Fault``, ``LookupError``."""
    if pages is None:
        with tempfile.TemporaryDirectory() as folder:
            pages = read_pages(configuration, Path(folder))
    shown = {page.name: Shown(page.digest, page.listings, page.examples) for page in pages}
    return State(configuration, Measured(configuration, shown, proof or proof_files.read(configuration)))


def faults(configuration: Configuration, pages: list[Page] | None = None) -> Iterator[str]:
    """One message for each reason why the committed proof does not hold for the current tree."""
    try:
        state = read_state(configuration, pages)
        yield from _line_faults(state.measured)
        yield from _mutant_faults(state.measured, read_floor(configuration).get(_WHOLE, {}).get(_UNTRIED, 0))
        yield from equivalents.faults(configuration)
        yield from _floor_faults(state)
    except LookupError as error:
        yield str(error)


def _line_faults(measured: Measured) -> Iterator[str]:
    file, command = measured.configuration.result(LINES), measured.configuration.command("proof")
    why = measured.stale()
    if why:
        yield f"{file}: {why}; run `{command}`"
        return
    for name in sorted({*measured.pages, *measured.proof.pages}):
        why = measured.stale_page(name)
        if why:
            yield f"{file}: {name}: {why}; run `{command}`"
    for name in sorted(measured.pages):
        found = figures.chapter_lines(measured, name)
        for path, number in sorted(found.missed if found else ()):
            yield f"{path}:{number}: shown by {name}, and no example of a page that shows the line executes it"
    total = figures.all_lines(measured)
    yield from _excuse_faults(measured.configuration.root, total.executed)
    yield from _unmeasured_faults(measured)
    if len(total.excused) > MOST_EXCUSED * len(total.displayed):
        yield (
            f"{file}: {len(total.excused)} of {len(total.displayed)} displayed lines are excused, "
            f"which is more than {MOST_EXCUSED:.0%}; write examples that execute them"
        )


def _excuse_faults(root: Path, executed: set[figures.Line]) -> Iterator[str]:
    """The excuses at lines that examples do execute. A line such as ``} catch (...) {`` counts by its first brace."""
    for path, lines in groupby(sorted(executed), key=lambda line: line[0]):
        text = read_lines(root / path)
        for _, number in lines:
            code = text[number - 1]
            if (excuse := EXCUSE.search(code)) and not code.lstrip().startswith("}"):
                yield f"{path}:{number}: an example executes the line: delete its excuse, {excuse['reason']!r}"


def _unmeasured_faults(measured: Measured) -> Iterator[str]:
    """Sources that are not measured for no reason that the configuration gives; settings that apply to no source."""
    configuration = measured.configuration
    for name in sorted(measured.pages):
        found = figures.chapter_lines(measured, name)
        for path in sorted({path for path, _ in found.unmeasured} if found else ()):
            if not configuration.why_unmeasured(path):
                command = configuration.command("proof", f"--page {name}")
                yield f"{path}: shown by {name}, not measured, and {FILE} does not say why; run `{command}`"
    shown = {listing.path for page in measured.pages.values() for listing in page.listings}
    for pattern in configuration.measure.unmeasured:
        if not any(fnmatchcase(path, pattern) for path in shown):
            yield f"{FILE}: [measure]: unmeasured: no page shows a source that matches {pattern}; take it out"
    for one in sorted({one for inputs in configuration.measure.inputs.values() for one in inputs}):
        if not any(configuration.root.glob(one)):
            yield f"{FILE}: [measure]: inputs: no file matches {one}; take it out"


def _mutant_faults(measured: Measured, allowed: float) -> Iterator[str]:
    untried = list(_untried(measured))
    if len(untried) > allowed:
        yield from untried
        file = measured.configuration.result(FLOOR)
        yield f"{file}: {len(untried)} listings wait for their mutants, {_UNTRIED} of {_WHOLE} lets {allowed:g} wait"


def _untried(measured: Measured) -> Iterator[str]:
    shown = {listing for page in measured.pages.values() for listing in page.listings}
    file, command = measured.configuration.result(MUTANTS), measured.configuration.command("mutate")
    if not measured.proof.mutants:
        yield f"{file}: there are none; run `{command}`"
        return
    for listing in sorted(shown | measured.tried.keys()):
        where = f"{listing.path}:{listing.first}" + (f" ({listing.region})" if listing.region else "")
        if listing not in shown:
            yield f"{file}: {where}: no page shows it any more; run `{command}`"
        elif listing in measured.tried or measured.wants_mutants(listing):
            why = measured.stale_mutants(listing)
            if why:
                yield f"{file}: {where}: {why}; run `{command}`"


def current_figures(state: State) -> Figures:
    """The figures by chapter, and those of the whole site, without lines that are not current.

    A listing whose mutants wait counts as they were last tried: otherwise, one that waits would hide what the others
    lost.
    """
    measured = state.measured
    result: Figures = {}
    for name, page in sorted(measured.pages.items()):
        of_page: dict[str, float] = {"examples": len(page.examples)}
        lines = figures.chapter_lines(measured, name)
        if lines:
            of_page["executed"] = _rounded(lines.share)
        if any(listing in measured.tried for listing in page.listings):
            of_page["killed"] = _rounded(figures.last_trials(measured, page.listings).share)
        result[name] = of_page
    listings = [listing for page in measured.pages.values() for listing in page.listings]
    configuration = state.configuration
    found = narrated.narrated(configuration.root, listings, configuration.package)
    whole = [one for one in found if not configuration.covers(configuration.excerpts, one.path)]
    result[_WHOLE] = {"narrated": _rounded(narrated.share(whole))}
    return result


def _rounded(share: float) -> float:
    """A share to four digits, rounded down, so that it is never overstated, and equal where nothing changed."""
    return math.floor(share * 10000 + 1e-9) / 10000


def _floor_faults(state: State) -> Iterator[str]:
    file = state.configuration.result(FLOOR)
    if not (state.configuration.root / file).is_file():
        yield f"{file}: there is none; run `{state.configuration.command('proof')}`"
        return
    now = current_figures(state)
    for name, of_page in read_floor(state.configuration).items():
        if name not in now:
            yield f"{file}: {name} has a floor, and there is no such page; take it out by hand"
        for figure, floor in of_page.items():
            value = now.get(name, {}).get(figure)
            # A figure that is not current is already a fault above.
            if value is not None and value < floor:
                yield f"{file}: {name}: {value:g} {_NAMES[figure]}, the floor is {floor:g}"


def read_floor(configuration: Configuration) -> Figures:
    """The committed floor; empty when there is none. Throws: ``LookupError`` when it cannot be read."""
    file = configuration.root / configuration.result(FLOOR)
    if not file.is_file():
        return {}
    try:
        read: Figures = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LookupError(f"{configuration.result(FLOOR)} is no JSON: {error}") from None
    return read


def _waits(measured: Measured, listings: Iterable[Listing]) -> bool:
    """Whether one of some listings waits for its mutants."""
    return any(
        measured.stale_mutants(listing) is not None if listing in measured.tried else measured.wants_mutants(listing)
        for listing in listings
    )


def raise_floor(configuration: Configuration, pages: list[Page] | None = None) -> None:
    """Raises the floor to the current figures where they are better; never lowers or removes one.

    The share of killed mutants counts only when all mutants of the page have been tried: the others could lower it
    again. ``pages`` are the current pages, if the caller has already read them.
    """
    floor = read_floor(configuration)
    state = read_state(configuration, pages)
    for name, of_page in current_figures(state).items():
        kept = floor.setdefault(name, {})
        if name != _WHOLE and _waits(state.measured, state.measured.pages[name].listings):
            of_page.pop("killed", None)
        kept.update({figure: max(value, kept.get(figure, 0)) for figure, value in sorted(of_page.items())})
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(of_page)}" for name, of_page in sorted(floor.items()))
    (configuration.root / configuration.result(FLOOR)).write_text("{\n" + lines + "\n}\n", encoding="utf-8")
