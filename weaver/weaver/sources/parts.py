"""A file in parts, each a declaration or a statement, and which of them a part cannot do without."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Characters ``start`` to ``end`` of a file; the comments before it, and from ``body`` on the code.

    ``scopes`` are those around it (``namespace shapes``), ``names`` what it gives to others, ``uses`` what it reads.
    One that holds ``everywhere`` changes what names mean, so that none does without it.
    """

    start: int
    body: int
    end: int
    names: frozenset[str]
    uses: frozenset[str]
    scopes: tuple[str, ...] = ()
    everywhere: bool = False


def overlapping(parts: Sequence[Part], start: int, end: int) -> list[Part]:
    """Return the parts that have code between two characters."""
    return [part for part in parts if part.body < end and part.end > start]


def needed(parts: Sequence[Part], chosen: Collection[Part]) -> list[Part]:
    """Return the chosen parts and those that they need, in order. Where a name has several parts, all are meant."""
    giving: dict[str, list[Part]] = {}
    for part in parts:
        for name in part.names:
            giving.setdefault(name, []).append(part)
    found: set[Part] = set()
    waiting = [*chosen, *(part for part in parts if part.everywhere)]
    while waiting:
        part = waiting.pop()
        if part not in found:
            found.add(part)
            waiting.extend(other for name in part.uses for other in giving.get(name, ()))
    return [part for part in parts if part in found]


def joined(text: str, parts: Sequence[Part]) -> Iterator[str]:
    """Yield the text of the parts, in their scopes."""
    opened: tuple[str, ...] = ()
    for part in parts:
        if part.scopes != opened:
            same = 0
            while same < min(len(opened), len(part.scopes)) and opened[same] == part.scopes[same]:
                same += 1
            yield from _change(opened[same:], part.scopes[same:])
            opened = part.scopes
        yield text[part.start : part.end]
    yield from _change(opened, ())


def _change(closed: tuple[str, ...], opened: tuple[str, ...]) -> Iterator[str]:
    yield "\n" if closed else ""
    yield from (f"\n}}  // {scope}" for scope in reversed(closed))
    yield "\n" if opened else ""
    yield from (f"\n{scope} {{" for scope in opened)
    yield "\n" if opened else ""
