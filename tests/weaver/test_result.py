"""What `make mutate` keeps of an earlier result when it tries only some listings."""

from __future__ import annotations

from weaver.proof.result import Region, others


def entry(path: str, region: str, killed: int) -> Region:
    return Region(path, region, 1, 2, [], "", killed, [], [], 0, 0.0, "", {})


def test_what_was_not_tried_stays() -> None:
    before = [entry("a.cpp", "one", 1), entry("a.cpp", "two", 2), entry("b.cpp", "one", 3)]
    assert others(before, [entry("a.cpp", "two", 4)]) == [before[0], before[2]]
    assert others(before, before) == []
