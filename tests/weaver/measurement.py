"""Measurements of the small repository, as ``make proof`` and ``make mutate`` would write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from weaver.proof.lines import CLASSES
from weaver.proof.planned import PLAN
from weaver.proof.proof_files import LINES, MUTANTS
from weaver.sources.binding import code_digest, region_digest, text_digest
from weaver.sources.installed import bound_to
from weaver.sources.listing import Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.weaver.conftest import Repository

EXAMPLE = "```{doctest}\n>>> 1 + 1\n2\n```\n"


def plan(repository: Repository) -> dict[str, Any]:
    """The pages as the plan builder writes them."""
    result = repository.build("plan")
    assert result.status == 0, result.warnings
    pages: dict[str, Any] = json.loads((result.output / PLAN).read_text(encoding="utf-8"))["pages"]
    return pages


def measure(repository: Repository, page: str = "index", fell_back: Sequence[str] = (), **lines: object) -> None:
    """Write lines.json: all current pages, with ``lines`` for every listing of ``page``.

    Each page has executed a part of every source that it shows.
    """
    pages = {}
    for name, entry in plan(repository).items():
        empty: dict[str, object] = {"executed": [], "missed": [], "excused": {}, "silent": {}, "example": None}
        listings = [
            listing
            | empty
            | {"text": text_digest(Listing(**listing), repository.root)}
            | (lines if name == page else {})
            for listing in entry["listings"]
        ]
        pages[name] = {
            "digest": entry["digest"],
            "date": "2026-11-21",
            "examples": sum(len(block["steps"]) for block in entry["blocks"]),
            "seconds": 1.5,
            "sources": {one["path"]: code_digest(repository.root / one["path"]) for one in entry["listings"]},
            "fell_back": list(fell_back),
            "listings": listings,
        }
    name, release = bound_to(repository.configuration)
    repository.write(f"docs/proof/{LINES}", json.dumps({name: release, "classes": CLASSES, "pages": pages}))


def examples(pages: dict[str, Any], names: Sequence[str]) -> list[str]:
    """The digests of the examples of some pages."""
    return [step["digest"] for name in names for block in pages[name]["blocks"] for step in block["steps"]]


def mutate(repository: Repository, killed: int, survived: int = 0, equivalent: int = 0) -> None:
    """Write mutants.json: for each current listing, the given numbers of mutants."""
    mutant = {"id": "m", "line": 6, "operator": "call", "before": "  start();", "after": "  stop();"}
    pages = plan(repository)
    shown: dict[Listing, list[str]] = {}
    for name, entry in pages.items():
        for listing in entry["listings"]:
            shown.setdefault(Listing(**listing), []).append(name)
    regions = [
        {
            "path": listing.path,
            "region": listing.region,
            "first": listing.first,
            "last": listing.last,
            "pages": names,
            "digest": "",
            "date": "2026-11-21",
            "text": region_digest(listing, repository.configuration),
            # One example of a page that shows it has killed all of them.
            "kills": {str(number): examples(pages, names)[-1] for number in range(killed)},
            "killed": killed,
            "survived": [mutant] * survived,
            "equivalent": [mutant | {"reason": "it is never called"}] * equivalent,
            "seconds": 1,
        }
        for listing, names in shown.items()
    ]
    repository.write(f"docs/proof/{MUTANTS}", json.dumps({"regions": regions}))
