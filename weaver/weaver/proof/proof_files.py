"""The two files with the measurements of the pages.

``lines.json`` records which displayed lines the examples execute, ``mutants.json`` which deliberate faults in those
lines they detect. ``python -m weaver proof`` and ``python -m weaver mutate`` write them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from weaver.sources.installed import bound_to
from weaver.sources.listing import Listing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from weaver.configuration import Configuration

LINES = "lines.json"
MUTANTS = "mutants.json"


@dataclass(frozen=True)
class ListingLines:
    """Which lines of a listing its page executes, another page executes, no page executes, and no page can execute.

    ``excused`` and ``silent`` give the reasons; ``example`` is the index, from 0, of an executed block of the page;
    ``text`` is the hash of the listed text. In the file, ``missed`` includes the lines that are executed ``elsewhere``.
    """

    executed: list[int]
    missed: list[int]
    excused: dict[int, str]
    silent: dict[str, list[int]]
    example: int | None
    text: str
    elsewhere: list[int] = field(default_factory=list)

    @property
    def executable(self) -> int:
        """The number of lines that something could execute."""
        return len(self.executed) + len(self.elsewhere) + len(self.missed) + len(self.excused)

    def moved(self, by: int) -> ListingLines:
        """Return the same for a listing that has moved down by this many lines."""
        return replace(
            self,
            executed=[number + by for number in self.executed],
            missed=[number + by for number in self.missed],
            excused={number + by: reason for number, reason in self.excused.items()},
            silent={reason: [number + by for number in numbers] for reason, numbers in self.silent.items()},
        )


@dataclass(frozen=True)
class PageLines:
    """One measured page: ``date`` is when it was measured, ``digest`` the hash of what it ran.

    ``sources`` are those that its examples executed, and the headers that these include, each with the hash of its
    code; ``fell_back`` are the names, reported by the observer, of what it lacked.
    """

    digest: str
    date: str
    examples: int
    seconds: float
    sources: dict[str, str]
    fell_back: list[str]
    listings: dict[Listing, ListingLines]


@dataclass(frozen=True)
class Mutant:
    """One deliberate fault; ``reason`` says why no example can detect it, where a person has found it equivalent."""

    line: int
    operator: str
    before: str
    after: str
    reason: str = ""


@dataclass(frozen=True)
class ListingMutants:
    """The mutant results of a listing with the digest ``text``; ``killers`` are digests of examples.

    ``date`` is when they were tried.
    """

    text: str
    date: str
    killers: frozenset[str]
    killed: int
    survived: list[Mutant]
    equivalent: list[Mutant]

    def moved(self, by: int) -> ListingMutants:
        """Return the same for a listing that has moved down by this many lines."""
        survived, equivalent = (
            [replace(one, line=one.line + by) for one in ones] for ones in (self.survived, self.equivalent)
        )
        return replace(self, survived=survived, equivalent=equivalent)


@dataclass(frozen=True)
class Proof:
    """The content of both files, current or not; the fields of a missing file are empty.

    ``classes`` is the number of the rules that sorted the lines (``weaver.proof.lines``).
    """

    release: str = ""
    classes: int = 0
    pages: dict[str, PageLines] = field(default_factory=dict)
    mutants: dict[Listing, ListingMutants] = field(default_factory=dict)


def read(configuration: Configuration) -> Proof:
    """Read both files. Throws: ``LookupError`` when one does not have the format that the commands write."""
    lines, mutants = (_load(configuration.root / configuration.result(name)) for name in (LINES, MUTANTS))
    try:
        return Proof(
            lines.get(bound_to(configuration)[0], ""),
            lines.get("classes", 0),
            {name: page(entry) for name, entry in lines.get("pages", {}).items()},
            {_listing(entry): _mutants(entry) for entry in mutants.get("regions", [])},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        files = f"{configuration.result(LINES)} or {configuration.result(MUTANTS)}"
        commands = f"`{configuration.command('proof')}` and `{configuration.command('mutate')}`"
        wrong = f"{files} is not as {commands} write it"
        raise LookupError(f"{wrong}: {error!r}") from None


def _load(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LookupError(f"{file.name} is no JSON: {error}; restore it from version control, or delete it") from None
    return loaded


def _listing(entry: Mapping[str, Any]) -> Listing:
    return Listing(entry["path"], entry["first"], entry["last"], entry["region"])


def page(entry: Mapping[str, Any]) -> PageLines:
    """Read the entry of one page in ``lines.json``."""
    listings = {
        _listing(one): ListingLines(
            one["executed"],
            one["missed"],
            {int(line): reason for line, reason in one["excused"].items()},
            one["silent"],
            one["example"],
            one["text"],
        )
        for one in entry["listings"]
    }
    numbers = entry["examples"], entry["seconds"]
    return PageLines(entry["digest"], entry["date"], *numbers, entry["sources"], entry["fell_back"], listings)


def _mutants(entry: Mapping[str, Any]) -> ListingMutants:
    survived, equivalent = (
        [Mutant(one["line"], one["operator"], one["before"], one["after"], one.get("reason", "")) for one in entry[key]]
        for key in ("survived", "equivalent")
    )
    killers = frozenset(entry["kills"].values())
    return ListingMutants(entry["text"], entry["date"], killers, entry["killed"], survived, equivalent)
