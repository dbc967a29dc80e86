"""The figures of the proof: how much of what a chapter shows is executed, and how many mutants its examples kill.

A line in two listings counts once. A result that is not current counts as not measured, never as proven.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weaver.proof.lines import UNMEASURED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weaver.proof.measured import Measured
    from weaver.proof.proof_files import ListingMutants
    from weaver.sources.listing import Listing

Line = tuple[str, int]


@dataclass
class LineFigures:
    """The displayed lines of one or all chapters, by outcome. ``excused`` gives the reasons.

    ``unmeasured`` is the code to which no build can give counters, ``silent`` all else without information.
    """

    listings: int = 0
    displayed: set[Line] = field(default_factory=set)
    executed: set[Line] = field(default_factory=set)
    elsewhere: set[Line] = field(default_factory=set)
    missed: set[Line] = field(default_factory=set)
    excused: dict[Line, str] = field(default_factory=dict)
    silent: set[Line] = field(default_factory=set)
    unmeasured: set[Line] = field(default_factory=set)

    @property
    def executable(self) -> int:
        """The number of lines that something could execute."""
        return len(self.executed | self.elsewhere | self.missed | set(self.excused))

    @property
    def share(self) -> float:
        """The share of them that this chapter, or another that shows the line, executes; 1 when there are none."""
        return len(self.executed | self.elsewhere) / self.executable if self.executable else 1.0


@dataclass(frozen=True)
class MutantFigures:
    """The mutants of one or all chapters, by outcome."""

    killed: int = 0
    survived: int = 0
    equivalent: int = 0

    @property
    def share(self) -> float:
        """The killed share of those that can be killed; 1 when there are none."""
        return self.killed / (self.killed + self.survived) if self.killed + self.survived else 1.0


def chapter_lines(measured: Measured, name: str) -> LineFigures | None:
    """Return the figures of one chapter; None when its measurement is not current."""
    lines = measured.lines(name)
    if lines is None:
        return None
    result = LineFigures(listings=len(measured.pages[name].listings))
    for listing, found in lines.listings.items():
        path = listing.path
        result.displayed |= {(path, line) for line in range(listing.first, listing.last + 1)}
        result.executed |= {(path, line) for line in found.executed}
        result.elsewhere |= {(path, line) for line in found.elsewhere}
        result.missed |= {(path, line) for line in found.missed}
        result.excused |= {(path, line): reason for line, reason in found.excused.items()}
        for reason, numbers in found.silent.items():
            of_reason = result.unmeasured if reason == UNMEASURED else result.silent
            of_reason |= {(path, line) for line in numbers}
    return result


def all_lines(measured: Measured) -> LineFigures:
    """Return the combined figures of all chapters that are current."""
    total = LineFigures()
    for name in measured.pages:
        one = chapter_lines(measured, name)
        if one is not None:
            total.listings += one.listings
            total.displayed |= one.displayed
            total.executed |= one.executed | one.elsewhere
            total.missed |= one.missed
            total.excused |= one.excused
            total.silent |= one.silent
            total.unmeasured |= one.unmeasured
    return total


def mutants(measured: Measured, listings: Iterable[Listing]) -> MutantFigures:
    """Return the combined figures of the listings whose mutants are current."""
    return _sum(entry for listing in set(listings) if (entry := measured.mutants(listing)) is not None)


def last_trials(measured: Measured, listings: Iterable[Listing]) -> MutantFigures:
    """Return the combined figures of the last trial of each listing, whether it is current or not."""
    return _sum(measured.tried[listing] for listing in set(listings) if listing in measured.tried)


def _sum(entries: Iterable[ListingMutants]) -> MutantFigures:
    found = list(entries)
    return MutantFigures(
        sum(entry.killed for entry in found),
        sum(len(entry.survived) for entry in found),
        sum(len(entry.equivalent) for entry in found),
    )
