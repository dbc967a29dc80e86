"""``equivalent.toml``: the mutants that no example can distinguish from the original, each with the reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from weaver.configuration import Configuration
from weaver.fault import Fault
from weaver.proof.mutants import Mutant
from weaver.proof.shown import read_source

FILE = "equivalent.toml"  # in the folder of results
_KEYS = {"path", "line", "operator", "before", "after", "reason"}


@dataclass(frozen=True)
class Equivalent:
    """An excuse for the mutants of one operator that change ``before`` to ``after`` on lines with the text ``line``."""

    path: str
    line: str
    operator: str
    before: str
    after: str
    reason: str

    def fits(self, mutant: Mutant, line: str) -> bool:
        """Whether this entry excuses a mutant on a line with this text."""
        mine = self.path, self.line, self.operator, self.before, self.after
        return mine == (mutant.path, line.strip(), mutant.operator, mutant.before, mutant.after)


def read(file: Path) -> list[Equivalent]:
    """The excuses in a file. Throws: ``Fault`` when one lacks a reason or is malformed."""
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("mutant", []) if file.is_file() else []
    for entry in entries:
        if set(entry) != _KEYS or not all(isinstance(value, str) for value in entry.values()):
            raise Fault(f"{file}: an entry has {', '.join(sorted(entry))}; it must have {', '.join(sorted(_KEYS))}")
        if not entry["reason"].strip():
            raise Fault(f"{file}: {entry['path']}: {entry['line']}: a mutant is excused without a reason")
    return [Equivalent(**entry) for entry in entries]


def faults(configuration: Configuration) -> Iterator[str]:
    """One message for each excuse that fits no mutant of its source, as after a change of the line; tries none."""
    file, root = configuration.result(FILE), configuration.root
    sources: dict[str, list[tuple[Mutant, str]]] = {}
    for one in read(root / file):
        if one.path not in sources:
            text = (root / one.path).read_bytes() if (root / one.path).is_file() else b""
            lines = text.decode().splitlines()
            source = read_source(one.path, text, set(range(1, len(lines) + 1)), configuration.mutants)
            sources[one.path] = [(mutant, lines[mutant.line - 1]) for mutant in source.mutants]
        if not any(one.fits(mutant, line) for mutant, line in sources[one.path]):
            yield f"{file}: {_fits_none(one)}"


def _fits_none(one: Equivalent) -> str:
    return (
        f"excuses a mutant that does not exist, or no longer: {one.path}: {one.line}: "
        f"{one.operator}: {one.before} -> {one.after or '(nothing)'}"
    )


def excused(
    equivalents: Iterable[Equivalent], mutants: Mapping[int, Mutant], texts: Mapping[str, bytes]
) -> dict[int, str]:
    """The reasons of the excused mutants. Throws: ``Fault`` when an excuse fits no mutant."""
    reasons: dict[int, str] = {}
    lines = {path: text.decode().splitlines() for path, text in texts.items()}
    for one in equivalents:
        fitting = [
            number for number, mutant in mutants.items() if one.fits(mutant, lines[mutant.path][mutant.line - 1])
        ]
        if not fitting:
            raise Fault(f"{FILE} {_fits_none(one)}")
        reasons |= dict.fromkeys(fitting, one.reason)
    return reasons
