"""The measurements of the pages, and whether they still hold.

Each measurement carries the digests of what was measured. If the examples, listings or shown sources have changed
since, it is ignored. If only a source has changed that the page executes but does not show, it is aged, and still
holds: otherwise a change of a loop that all pages execute would make all of them stale at once, although it rarely
changes which displayed lines run. ``proof --sample`` checks this on a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING

from weaver.proof.lines import CLASSES
from weaver.proof.observer import observer
from weaver.sources.binding import code_digest, region_digest, text_digest
from weaver.sources.installed import bound_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weaver.configuration import Configuration
    from weaver.proof.proof_files import ListingLines, ListingMutants, Mutant, PageLines, Proof
    from weaver.sources.listing import Listing


def _few(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {len(names) - 1} more)"


def is_mutated(configuration: Configuration, path: str) -> bool:
    """Return whether a source has mutants.

    Build files and tools have none, since their output is the build; examples have none, since they would have to
    detect faults in themselves. Nor have the files that the configuration leaves out.
    """
    is_source = PurePath(path).suffix in {".cpp", ".h", ".py"} and configuration.covers(configuration.package, path)
    return is_source and path not in configuration.mutants.left_out


@dataclass(frozen=True)
class Shown:
    """What a page shows and runs now: the digests of all that it runs and of each example, and its source listings."""

    digest: str
    listings: Sequence[Listing]
    examples: Sequence[str]


class Measured:
    """The measurements, with what the pages show now."""

    def __init__(self, configuration: Configuration, pages: Mapping[str, Shown], proof: Proof) -> None:
        self.configuration = configuration
        self.root = configuration.root
        self.pages = pages
        self.proof = proof
        self._stale_pages: dict[str, str | None] = {}
        self._own: dict[str, PageLines | None] = {}
        self._lines: dict[str, PageLines | None] = {}
        self._stale_mutants: dict[Listing, str | None] = {}

    def stale(self) -> str | None:
        """Return why no measurement of lines holds; None when there is no such reason."""
        name, release = bound_to(self.configuration)
        if not self.proof.release:
            return "there is none"
        if self.proof.release != release:
            return f"it was measured with {name} {self.proof.release}, and {name} {release} is installed"
        if self.proof.classes != CLASSES:
            return "another version of the weaver sorted its lines"
        return None

    def stale_page(self, name: str) -> str | None:
        """Return why the measurement of a page does not hold; None when it does."""
        if name not in self._stale_pages:
            self._stale_pages[name] = self.stale() or self._compare_page(name)
        return self._stale_pages[name]

    def _compare_page(self, name: str) -> str | None:
        measured, now = self.proof.pages.get(name), self.pages.get(name)
        if measured is None:
            return "the page was never measured"
        if now is None:
            return "the page is gone"
        if measured.digest != now.digest:
            return "what the page runs has changed since it was measured"
        if self._by_text(measured).keys() != {self._text(listing) for listing in now.listings}:
            return "what the page shows has changed since it was measured"
        shown = {listing.path for listing in now.listings}
        changed = [path for path in self._changed_sources(name) if path in shown]
        if changed:
            return f"{_few(changed)}, which it shows and executes, changed since it was measured"
        found = sorted(set(measured.fell_back) & self._present)
        if found:
            return observer(self.configuration).CHANGED.format(_few(found))
        return None

    def aged(self, name: str) -> bool:
        """Return whether a source that a page executes but does not show has changed since the page was measured."""
        return self.stale_page(name) is None and bool(self._changed_sources(name))

    def _changed_sources(self, name: str) -> list[str]:
        sources = self.proof.pages[name].sources
        return [path for path, digest in sources.items() if code_digest(self.root / path) != digest]

    @cached_property
    def _present(self) -> set[str]:
        return set(observer(self.configuration).present(self.root))

    def _text(self, listing: Listing) -> tuple[str, str, str]:
        return listing.path, listing.region, text_digest(listing, self.root)

    @staticmethod
    def _by_text(lines: PageLines) -> dict[tuple[str, str, str], tuple[Listing, ListingLines]]:
        return {(one.path, one.region, found.text): (one, found) for one, found in lines.listings.items()}

    def lines(self, name: str) -> PageLines | None:
        """Return the lines of a page at their current positions; None if they are not current."""
        if name not in self._lines:
            own = self._executed_by(name)
            self._lines[name] = own and replace(
                own, listings={one: self._with_others(name, one, found) for one, found in own.listings.items()}
            )
        return self._lines[name]

    def _executed_by(self, name: str) -> PageLines | None:
        """The lines that a page itself executes. A listing that has moved in its file keeps its results."""
        if name not in self._own:
            self._own[name] = None
            if self.stale_page(name) is None:
                known = self._by_text(self.proof.pages[name])
                listings = {}
                for listing in self.pages[name].listings:
                    measured, found = known[self._text(listing)]
                    listings[listing] = found.moved(listing.first - measured.first)
                self._own[name] = replace(self.proof.pages[name], listings=listings)
        return self._own[name]

    def _with_others(self, name: str, listing: Listing, found: ListingLines) -> ListingLines:
        """Find which of the lines that a page misses are executed by another page that shows them."""
        if not found.missed:
            return found
        others = [lines for other in self.pages if other != name and (lines := self._executed_by(other))]
        executed = {
            number
            for lines in others
            for one, theirs in lines.listings.items()
            if one.path == listing.path
            for number in theirs.executed
        }
        return replace(
            found,
            elsewhere=[number for number in found.missed if number in executed],
            missed=[number for number in found.missed if number not in executed],
        )

    def stale_mutants(self, listing: Listing) -> str | None:
        """Return why the mutant results of a listing do not hold; None when they do."""
        if listing not in self._stale_mutants:
            self._stale_mutants[listing] = self._compare_mutants(listing)
        return self._stale_mutants[listing]

    def _compare_mutants(self, listing: Listing) -> str | None:
        entry = self.tried.get(listing)
        if entry is None:
            return "its mutants were never tried"
        if not (self.configuration.root / listing.path).is_file():
            return "its file is there no more"
        if region_digest(listing, self.configuration) != entry.text:
            return f"it or {bound_to(self.configuration)[0]} has changed since its mutants were tried"
        showing = [page for page in self.pages.values() if listing in page.listings]
        if not entry.killers.issubset(chain.from_iterable(page.examples for page in showing)):
            return "an example that killed one of its mutants has changed or is gone"
        return None

    @cached_property
    def tried(self) -> dict[Listing, ListingMutants]:
        """The listings whose mutants were tried, at their current positions, whether the trial is current or not."""
        known = self.proof.mutants
        # The name of a marked region is unique in all sources, so the region may move to another file.
        same = {(one.region or one.path, entry.text): (one, entry) for one, entry in known.items()}
        # A region that has changed is still the one that was tried.
        named = {one.region: (one, entry) for one, entry in known.items() if one.region}
        found: dict[Listing, ListingMutants] = {}
        moved = set()
        for listing in {listing for page in self.pages.values() for listing in page.listings}:
            current = same.get((listing.region or listing.path, region_digest(listing, self.configuration)))
            current = current or named.get(listing.region)
            if current is not None:
                moved.add(current[0])
                found[listing] = current[1].moved(listing.first - current[0].first)
        return {listing: entry for listing, entry in known.items() if listing not in moved} | found

    def wants_mutants(self, listing: Listing) -> bool:
        """Return whether examples execute a listing of the package whose current mutants have not been tried."""
        if not is_mutated(self.configuration, listing.path):
            return False
        pages = [lines for name in self.pages if (lines := self.lines(name)) and listing in lines.listings]
        executed = any(lines.listings[listing].executed for lines in pages)
        return executed and self.stale_mutants(listing) is not None

    def mutants(self, listing: Listing) -> ListingMutants | None:
        """Return the mutants of a listing; None if they are not current."""
        return None if self.stale_mutants(listing) else self.tried[listing]

    def listed(self, kind: str) -> Iterator[tuple[Listing, Mutant]]:
        """Return the current mutants that ``survived`` or are ``equivalent``, in the order of the sources."""
        for listing in sorted(self.tried):
            entry = self.mutants(listing)
            for mutant in getattr(entry, kind, []):
                yield listing, mutant
