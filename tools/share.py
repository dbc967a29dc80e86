"""A share of what there is to do: CI does another one for each commit, where all of it takes too long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")


class Share(NamedTuple):
    """Of ``of`` shares the one with this number; without a word, all there is."""

    number: int = 0
    of: int = 1

    def take(self, items: Sequence[Item]) -> Sequence[Item]:
        """Each ``of``-th item, so that neighbours, which often cost the same, go into different shares."""
        return items[self.number :: self.of]


ALL = Share()


def share(text: str) -> Share:
    """Reads a share, for argparse. Throws: ``ValueError`` when there is no such share."""
    number, _, of = text.partition("/")
    if not 0 <= int(number) < int(of):
        raise ValueError(f"a share is N/M with 0 <= N < M, got {text}")
    return Share(int(number), int(of))
