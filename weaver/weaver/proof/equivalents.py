"""``equivalent.toml``: the mutants that no example can distinguish from the original, each with the reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from weaver.fault import Fault
from weaver.proof.mutants import Mutant

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


def faults(root: Path, file: Path) -> Iterator[str]:
    """One message for each excuse whose line does not exist, or no longer; needs no list of mutants."""
    lines: dict[str, set[str]] = {}
    for one in read(root / file):
        if one.path not in lines:
            source = root / one.path
            texts = source.read_text(encoding="utf-8").splitlines() if source.is_file() else []
            lines[one.path] = {text.strip() for text in texts}
        if one.line not in lines[one.path]:
            yield f"{file}: excuses a mutant of a line that does not exist, or no longer: {one.path}: {one.line}"


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
            raise Fault(
                f"equivalent.toml excuses a mutant that does not exist, or no longer: {one.path}: {one.line}: "
                f"{one.operator}: {one.before} -> {one.after}"
            )
        reasons |= dict.fromkeys(fitting, one.reason)
    return reasons
