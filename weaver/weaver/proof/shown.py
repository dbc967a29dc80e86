"""The listings that pages show of our sources, and the mutants in them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from weaver.configuration import Configuration, Mutants
from weaver.proof import cxx_mutants, python_mutants
from weaver.proof.lines import EXCUSE
from weaver.proof.measured import is_mutated
from weaver.proof.mutants import Mutant, Source, identified
from weaver.proof.planned import Page
from weaver.sources.binding import region_digest
from weaver.sources.listing import Listing

# A missing lock shows only with some thread timings; sanitizers detect it instead.
_LEFT_OUT = {"lock removed"}


@dataclass
class Place:
    """A listing, the pages that show it, the digests of what its mutants are tried with and made from, the mutants."""

    listing: Listing
    pages: list[str]
    digest: str = ""
    text: str = ""
    mutants: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name for a user."""
        return self.listing.region or f"{self.listing.path}:{self.listing.first}"


@dataclass
class Shown:
    """All listings, and their mutants by number; ``largest`` is the largest number that any source of the build has."""

    pages: list[Page]
    places: list[Place]
    texts: dict[str, bytes]
    mutants: dict[int, Mutant]
    largest: int = 0
    left_out: int = 0
    unread: list[str] = field(default_factory=list)

    def pages_of(self, number: int) -> list[str]:
        """The pages whose examples should kill a mutant."""
        return sorted({page for place in self.places if number in place.mutants for page in place.pages})

    def examples_of(self, place: Place) -> set[str]:
        """The digests of the examples that should kill the mutants of a listing: those of all pages that show it."""
        return {one for page in self.pages if page.name in place.pages for one in page.examples}


class Numbers:
    """The numbers of mutants by identity, kept in ``file``.

    Stable numbers mean that a compiled source with mutants stays valid when mutants elsewhere are added or removed.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._known: dict[str, int] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    def number(self, mutant: Mutant) -> int:
        """The number of a mutant, from 1; assigns one if it has none."""
        return self._known.setdefault(mutant.identity, len(self._known) + 1)

    @property
    def largest(self) -> int:
        """The largest number ever given: a source that is not tried keeps the mutants of an earlier run."""
        return max(self._known.values(), default=0)

    def keep(self) -> None:
        """Writes the file."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(self._known), encoding="utf-8")


def read_shown(configuration: Configuration, pages: list[Page], numbers: Numbers) -> Shown:
    """Reads the sources that pages show, and creates their mutants."""
    places: dict[Listing, Place] = {}
    showing = {page.name: page.digest for page in pages}
    for page in pages:
        for listing in page.listings:
            if is_mutated(configuration, listing.path):
                places.setdefault(listing, Place(listing, [])).pages.append(page.name)
    for place in places.values():
        place.pages = sorted(set(place.pages))
        place.digest = region_digest(place.listing, configuration, [showing[name] for name in place.pages])
        place.text = region_digest(place.listing, configuration)
    shown = Shown(pages, sorted(places.values(), key=lambda place: place.listing), {}, {})
    for path in sorted({listing.path for listing in places}):
        _add(shown, path, (configuration.root / path).read_bytes(), numbers, configuration.mutants)
    numbers.keep()
    shown.largest = numbers.largest
    return shown


def _add(shown: Shown, path: str, text: bytes, numbers: Numbers, macros: Mutants) -> None:
    """Adds the mutants of one source to the listings that contain them."""
    shown.texts[path] = text
    places = [place for place in shown.places if place.listing.path == path]
    lines = {line for place in places for line in range(place.listing.first, place.listing.last + 1)}
    excused = {number for number, line in enumerate(text.decode().splitlines(), 1) if EXCUSE.search(line)}
    source = read_source(path, text, lines, macros)
    shown.unread += [f"{path}:{line}" for line in sorted(source.unread)]
    for mutant in identified(source.mutants, text):
        if mutant.operator in _LEFT_OUT or mutant.line in excused:
            shown.left_out += 1
            continue
        around = [
            place for place in places if place.listing.first <= mutant.line and mutant.last_line <= place.listing.last
        ]
        if around:
            number = numbers.number(mutant)
            shown.mutants[number] = mutant
            for place in around:
                place.mutants.append(number)


def read_source(path: str, text: bytes, lines: set[int], macros: Mutants) -> Source:
    """Finds the mutants on some lines of a source."""
    if path.endswith(".py"):
        return python_mutants.read(path, text, lines)
    return cxx_mutants.read(path, text, lines, macros)
