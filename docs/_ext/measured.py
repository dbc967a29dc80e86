"""What was measured of the pages, and whether it still holds.

Each measurement carries the digests of what was measured. One whose digests are not those of now is treated as if it
were not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from docs._ext.binding import code_digest, region_digest, torch_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from docs._ext.proof_files import ListingMutants, PageLines, Proof
    from docs._ext.records import Listing

_BACKEND = ("csrc/", "torch_openreg/", "torch_openreg_autoload.py")
_MUTABLE = {".cpp", ".h", ".py"}


@dataclass(frozen=True)
class Shown:
    """What a page shows and runs now: the listings of our sources, their digest, and the number of its examples."""

    digest: str
    listings: Sequence[Listing]
    examples: int


class Measured:
    """The measurements, beside what the pages show now."""

    def __init__(self, root: Path, pages: Mapping[str, Shown], proof: Proof) -> None:
        self.root = root
        self.pages = pages
        self.proof = proof
        self._code = code_digest(root)
        self._stale_mutants: dict[Listing, str | None] = {}

    def stale(self) -> str | None:
        """Say why no line was measured on what is here now; None when there is no such reason."""
        if not self.proof.date:
            return "there is none"
        if self.proof.torch != torch_version():
            return f"it was measured with torch {self.proof.torch}, and torch {torch_version()} is installed"
        if self.proof.code != self._code:
            return "the sources, or what builds them, have changed since it was measured"
        return None

    def stale_page(self, name: str) -> str | None:
        """Say why the lines of a page are not those that were measured; None when they are."""
        measured, now = self.proof.pages.get(name), self.pages.get(name)
        if measured is None:
            return "the page was never measured"
        if now is None:
            return "the page is gone"
        if measured.digest != now.digest:
            return "what the page runs or shows has changed since it was measured"
        if set(measured.listings) != set(now.listings):
            return "what the page shows has moved since it was measured"
        return None

    def lines(self, name: str) -> PageLines | None:
        """Return the lines of a page, if they are current."""
        return None if self.stale() or self.stale_page(name) else self.proof.pages[name]

    def stale_mutants(self, listing: Listing) -> str | None:
        """Say why the mutants of a listing are not those that were tried; None when they are."""
        if listing not in self._stale_mutants:
            self._stale_mutants[listing] = self._compare_mutants(listing)
        return self._stale_mutants[listing]

    def _compare_mutants(self, listing: Listing) -> str | None:
        entry = self.proof.mutants.get(listing)
        if entry is None:
            return "its mutants were never tried"
        now = {name: page.digest for name, page in self.pages.items() if listing in page.listings}
        if set(now) != set(entry.pages):
            return "other pages show it now than when its mutants were tried"
        if region_digest(listing, now.values(), self.root) != entry.digest:
            return "it, an example of its pages or torch has changed since its mutants were tried"
        return None

    def wants_mutants(self, listing: Listing) -> bool:
        """Say whether examples execute a listing of the backend, and its mutants are not tried as it is now."""
        if PurePath(listing.path).suffix not in _MUTABLE or not listing.path.startswith(_BACKEND):
            return False
        pages = [lines for name in self.pages if (lines := self.lines(name)) and listing in lines.listings]
        executed = any(lines.listings[listing].executed for lines in pages)
        return executed and self.stale_mutants(listing) is not None

    def mutants(self, listing: Listing) -> ListingMutants | None:
        """Return the mutants of a listing, if they are current."""
        return None if self.stale_mutants(listing) else self.proof.mutants[listing]
