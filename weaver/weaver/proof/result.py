"""``mutants.json``: the results of the mutants of each listing, and what they are bound to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from weaver.configuration import Configuration
from weaver.proof.mutants import OPERATORS, Mutant
from weaver.proof.shown import Place, Shown
from weaver.sources.installed import bound_to


@dataclass(frozen=True)
class Region:
    """The entry of a listing. ``survived`` and ``equivalent`` are mutants, ``refused`` counts those not compiled.

    ``kills`` maps each other mutant to the digest of the example that killed it; ``text`` is the digest of the listing.
    An entry holds while the text is the same and these examples exist: others can only kill more. ``digest`` covers
    everything that the mutants were tried with, so that survivors are tried again with other examples. ``date`` is the
    day of the trial.
    """

    path: str
    region: str
    first: int
    last: int
    pages: list[str]
    digest: str
    killed: int
    survived: list[dict[str, Any]]
    equivalent: list[dict[str, Any]]
    refused: int
    seconds: float
    text: str
    kills: dict[str, str]
    date: str


def read(file: Path) -> list[Region]:
    """The entries of a file; none when it does not exist, was made with other operators, or has other fields."""
    data = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    regions = data.get("regions", []) if data.get("operators") == OPERATORS else []
    names = {one.name for one in fields(Region)}
    return [Region(**entry) for entry in regions] if all(entry.keys() == names for entry in regions) else []


def write(configuration: Configuration, file: Path, regions: Iterable[Region]) -> None:
    """Writes entries, one per line, so that diffs are readable."""
    package, release = bound_to(configuration)
    head = {package: release, "operators": OPERATORS}
    ordered = sorted(regions, key=lambda region: (region.path, region.first, region.region))
    lines = ",\n".join(json.dumps(asdict(region)) for region in ordered)
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(f'{json.dumps(head)[:-1]}, "regions": [\n{lines}\n]}}\n', encoding="utf-8")
    os.replace(new, file)


def others(earlier: Iterable[Region], regions: Iterable[Region]) -> list[Region]:
    """The entries of other listings, current or not: their kills save a later run the trial."""
    known = {(region.path, region.region) for region in regions}
    return [region for region in earlier if (region.path, region.region) not in known]


def described(mutant: Mutant) -> dict[str, Any]:
    """The description of one mutant in an entry."""
    return {
        "id": mutant.identity,
        "line": mutant.line,
        "operator": mutant.operator,
        "before": mutant.before,
        "after": mutant.after,
    }


def is_improvable(place: Place, region: Region) -> bool:
    """Return whether mutants of a listing survived, and the examples have changed since."""
    return bool(region.survived) and region.digest != place.digest


def _is_complete(region: Region, place: Place, shown: Shown) -> bool:
    """Whether an entry accounts for each mutant that the listing has now: earlier ones had other identities."""
    alive = {entry["id"] for entry in [*region.survived, *region.equivalent]}
    known = alive & {shown.mutants[number].identity for number in place.mutants}
    return known == alive and region.killed + len(alive) + region.refused == len(place.mutants)


def kept(place: Place, regions: Iterable[Region], shown: Shown, reasons: Mapping[int, str]) -> Region | None:
    """The entry of a listing that still holds, updated to the current listing and excuses; None if there is none."""
    listing, examples = place.listing, shown.examples_of(place)
    for region in regions:
        same = (region.path, region.region, region.text) == (listing.path, listing.region, place.text)
        if same and examples.issuperset(region.kills.values()) and _is_complete(region, place, shown):
            break
    else:
        return None
    alive = {entry["id"] for entry in [*region.survived, *region.equivalent]}
    numbers = [number for number in place.mutants if shown.mutants[number].identity in alive]
    return replace(
        region,
        first=listing.first,
        last=listing.last,
        pages=place.pages,
        survived=[described(shown.mutants[number]) for number in numbers if number not in reasons],
        equivalent=[
            {**described(shown.mutants[number]), "reason": reasons[number]} for number in numbers if number in reasons
        ],
    )
