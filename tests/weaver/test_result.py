"""What `make mutate` keeps of an earlier result."""

from __future__ import annotations

from dataclasses import replace

from weaver.proof.mutants import Mutant
from weaver.proof.result import Region, described, kept, others
from weaver.proof.shown import Place, Shown
from weaver.sources.listing import Listing


def entry(path: str, region: str, killed: int) -> Region:
    return Region(path, region, 1, 2, [], "", killed, [], [], 0, 0.0, "", {}, "2026-11-21")


def test_what_was_not_tried_stays() -> None:
    before = [entry("a.cpp", "one", 1), entry("a.cpp", "two", 2), entry("b.cpp", "one", 3)]
    assert others(before, [entry("a.cpp", "two", 4)]) == [before[0], before[2]]
    assert others(before, before) == []


def test_an_entry_that_does_not_account_for_each_mutant_does_not_hold() -> None:
    one, two, three = (Mutant("a.cpp", 1, 1, "literal", "0", "1", 0, 1, (), identity) for identity in ("1", "2", "3"))
    place = Place(Listing("a.cpp", 1, 2, "one"), [], mutants=[1, 2, 3])
    shown = Shown([], [place], {}, {1: one, 2: two, 3: three})
    tried = replace(entry("a.cpp", "one", 1), survived=[described(two)], refused=1)
    assert kept(place, [tried], shown, {}) == tried
    # A mutant more than there were, one fewer, and a survivor under an identity that it has no longer.
    for wrong in (replace(tried, refused=0), replace(tried, refused=2), replace(tried, survived=[{"id": "old"}])):
        assert kept(place, [wrong], shown, {}) is None
    assert kept(place, [replace(tried, refused=0), tried], shown, {}) == tried
