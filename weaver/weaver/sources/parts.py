"""Splits a file into parts, each a declaration or a statement, and finds the parts that a part needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Characters ``start`` to ``end`` of a file: the comments before the part, and the code from ``body`` on.

    ``scopes`` enclose it (``namespace shapes``), ``names`` are those it gives to others, ``uses`` those it uses. A part
    that applies ``everywhere`` changes the meaning of names, so all other parts need it.
    """

    start: int
    body: int
    end: int
    names: frozenset[str]
    uses: frozenset[str]
    scopes: tuple[str, ...] = ()
    everywhere: bool = False


def overlapping(parts: Sequence[Part], start: int, end: int) -> list[Part]:
    """Return the parts with code between two character positions."""
    return [part for part in parts if part.body < end and part.end > start]


def needed(parts: Sequence[Part], chosen: Collection[Part]) -> list[Part]:
    """Return the chosen parts and those that they need, in order; for each name, all parts that give it."""
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
