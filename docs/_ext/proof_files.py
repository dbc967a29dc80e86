"""The two files that hold what was measured of the pages.

``docs/proof/lines.json`` says which displayed lines the examples execute, ``docs/proof/mutants.json`` which deliberate
faults in those lines they notice. ``make proof`` and ``make mutate`` write them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs._ext.records import Listing

if TYPE_CHECKING:
    from collections.abc import Mapping

LINES = Path("docs", "proof", "lines.json")
MUTANTS = Path("docs", "proof", "mutants.json")


@dataclass(frozen=True)
class ListingLines:
    """Which lines of a listing its page executes, another page executes, nobody executes, and nothing can execute.

    ``excused`` and ``silent`` give the reasons; ``example`` counts the executed blocks of the page from 0.
    """

    executed: list[int]
    elsewhere: list[int]
    missed: list[int]
    excused: dict[int, str]
    silent: dict[str, list[int]]
    example: int | None

    @property
    def executable(self) -> int:
        """The number of lines that something could execute."""
        return len(self.executed) + len(self.elsewhere) + len(self.missed) + len(self.excused)


@dataclass(frozen=True)
class PageLines:
    """One measured page."""

    digest: str
    examples: int
    seconds: float
    listings: dict[Listing, ListingLines]


@dataclass(frozen=True)
class Mutant:
    """One deliberate fault; ``reason`` says why no example can notice it, where a person has found it equivalent."""

    line: int
    operator: str
    before: str
    after: str
    reason: str = ""


@dataclass(frozen=True)
class ListingMutants:
    """What became of the mutants of one listing."""

    pages: list[str]
    digest: str
    killed: int
    survived: list[Mutant]
    equivalent: list[Mutant]


@dataclass(frozen=True)
class Proof:
    """Both files as they are, current or not. A file that is not there has no date."""

    date: str = ""
    torch: str = ""
    code: str = ""
    pages: dict[str, PageLines] = field(default_factory=dict)
    mutants_date: str = ""
    mutants: dict[Listing, ListingMutants] = field(default_factory=dict)


def read(root: Path) -> Proof:
    """Read both files. Throws: ``LookupError`` when one is not what ``make proof`` and ``make mutate`` write."""
    lines, mutants = _load(root / LINES), _load(root / MUTANTS)
    try:
        return Proof(
            lines.get("date", ""),
            lines.get("torch", ""),
            lines.get("code", ""),
            {name: _page(entry) for name, entry in lines.get("pages", {}).items()},
            mutants.get("date", ""),
            {_listing(entry): _mutants(entry) for entry in mutants.get("regions", [])},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        wrong = f"{LINES} or {MUTANTS} is not as `make proof` and `make mutate` write it"
        raise LookupError(f"{wrong}: {error!r}") from None


def _load(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LookupError(f"{file.name} is no JSON: {error}") from None
    return loaded


def _listing(entry: Mapping[str, Any]) -> Listing:
    return Listing(entry["path"], entry["first"], entry["last"], entry["region"])


def _page(entry: Mapping[str, Any]) -> PageLines:
    listings = {
        _listing(one): ListingLines(
            one["executed"],
            one["elsewhere"],
            one["missed"],
            {int(line): reason for line, reason in one["excused"].items()},
            one["silent"],
            one["example"],
        )
        for one in entry["listings"]
    }
    return PageLines(entry["digest"], entry["examples"], entry["seconds"], listings)


def _mutants(entry: Mapping[str, Any]) -> ListingMutants:
    survived, equivalent = (
        [Mutant(one["line"], one["operator"], one["before"], one["after"], one.get("reason", "")) for one in entry[key]]
        for key in ("survived", "equivalent")
    )
    return ListingMutants(entry["pages"], entry["digest"], entry["killed"], survived, equivalent)
