"""A share of a task that takes too long as a whole: CI runs another share for each commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")


class Share(NamedTuple):
    """The share with this number, of ``of`` shares; by default, everything."""

    number: int = 0
    of: int = 1

    def take(self, items: Sequence[Item]) -> Sequence[Item]:
        """Each ``of``-th item, so that adjacent items, which often take similar time, are in different shares."""
        return items[self.number :: self.of]


ALL = Share()


def share(text: str) -> Share:
    """Parses a share, for argparse. Throws: ``ValueError``, if there is no such share."""
    number, _, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
        raise ValueError(f"a share is N/M with 0 <= N < M, got {text!r}")
    return Share(int(number), int(of))
