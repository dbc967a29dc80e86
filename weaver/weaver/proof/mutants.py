"""A mutant: one small fault, and how it is woven into its source together with all the others.

One text contains every mutant of a file, and behaves like the original until one of them is chosen. A mutant therefore
only adds text: ``a < b`` becomes ``(weaver_mutant(7) ? (a <= b) : (a < b))``. Added text contains no line break, so
line numbers do not change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

# Increase this when the operators change: results of other mutants do not apply to the new ones.
OPERATORS = 2
# The placeholder, in added text, for the test whether the mutant is the chosen one.
CHOSEN = "\0"


@dataclass(frozen=True)
class Insertion:
    """Text that is added at a byte of the source. One that ``closes`` belongs to the code before that byte."""

    at: int
    text: str
    closes: bool = False


@dataclass(frozen=True)
class Mutant:
    """A fault in the bytes ``start`` to ``end`` of ``path``, which lie on the lines ``line`` to ``last_line``.

    ``before`` and ``after`` show a reader the change. ``identity`` is stable as long as the code of the line is.
    """

    path: str
    line: int
    last_line: int
    operator: str
    before: str
    after: str
    start: int
    end: int
    insertions: tuple[Insertion, ...]
    identity: str = ""


@dataclass
class Source:
    """One source, the mutants in it, and the lines of it that could not be read as the language."""

    path: str
    text: bytes
    mutants: list[Mutant] = field(default_factory=list)
    unread: set[int] = field(default_factory=set)

    def line_of(self, at: int) -> int:
        """The line of a byte, counted from 1."""
        return self.text.count(b"\n", 0, at) + 1

    def add(self, operator: str, start: int, end: int, after: str, insertions: Iterable[Insertion]) -> None:
        """Adds a mutant of the bytes ``start`` to ``end``."""
        before = " ".join(self.text[start:end].decode().split())
        lines = self.line_of(start), self.line_of(max(start, end - 1))
        self.mutants.append(
            Mutant(self.path, *lines, operator, before, " ".join(after.split()), start, end, tuple(insertions))
        )


def identified(mutants: Iterable[Mutant], text: bytes) -> list[Mutant]:
    """The mutants with their identities. Equal mutants on equal lines of a file are distinguished by their order.

    A comment at the end of a line is ignored.
    """
    lines = text.decode().splitlines()
    seen: dict[str, int] = {}
    found = []
    for mutant in mutants:
        line = lines[mutant.line - 1].partition("#" if mutant.path.endswith(".py") else "//")[0].strip()
        key = "\0".join([mutant.path, line, mutant.operator, mutant.before, mutant.after])
        seen[key] = seen.get(key, 0) + 1
        digest = hashlib.sha256(f"{key}\0{seen[key]}".encode()).hexdigest()
        found.append(replace(mutant, identity=digest[:10]))
    return found


@dataclass(frozen=True)
class Woven:
    """A source with its mutants. ``added`` maps byte ranges to the mutants for which they were added."""

    text: bytes
    added: list[tuple[int, int, int]]

    def mutant_at(self, line: int, column: int) -> int | None:
        """The number of the mutant whose added text contains or encloses a position (counted from 1)."""
        starts = [0, *(at + 1 for at, byte in enumerate(self.text) if byte == 10)]
        if line > len(starts):
            return None
        at = starts[line - 1] + column - 1
        inside = [number for start, end, number in self.added if start <= at < end]
        if inside:
            return inside[0]
        spans: dict[int, tuple[int, int]] = {}
        for start, end, number in self.added:
            first, last = spans.get(number, (start, end))
            spans[number] = (min(first, start), max(last, end))
        around = [(last - first, number) for number, (first, last) in spans.items() if first <= at < last]
        return min(around)[1] if around else None

    def mutants_on(self, lines: Iterable[int]) -> set[int]:
        """The numbers of the mutants that added text to one of the lines."""
        wanted = set(lines)
        return {number for start, _, number in self.added if self.text.count(b"\n", 0, start) + 1 in wanted}


def weave(text: bytes, mutants: dict[int, Mutant], chosen: Callable[[int], str]) -> Woven:
    """Adds the mutants, by number, to their source; ``chosen(number)`` is the test in its language."""
    pieces: list[bytes] = []
    added: list[tuple[int, int, int]] = []
    length = at = 0
    for place, number, insertion in sorted(_ordered(mutants)):
        unchanged = text[at : place[0]]
        new = insertion.replace(CHOSEN, chosen(number)).encode()
        pieces += [unchanged, new]
        length += len(unchanged)
        added.append((length, length + len(new), number))
        length += len(new)
        at = place[0]
    pieces.append(text[at:])
    return Woven(b"".join(pieces), added)


def _ordered(mutants: dict[int, Mutant]) -> Iterator[tuple[tuple[int, ...], int, str]]:
    """The insertions with their sort keys: a mutant that encloses others opens before them and closes after them."""
    for number, mutant in mutants.items():
        size = mutant.end - mutant.start
        for insertion in mutant.insertions:
            nesting = (0, size, -number) if insertion.closes else (1, -size, number)
            yield (insertion.at, *nesting), number, insertion.text
