"""Which parts of the database run, and which units fail on this device and why: `exceptions.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

MODES = ("forward", "reference", "noncontiguous", "out", "in_place", "backward")
DTYPES = ("float32", "float64", "bfloat16", "float16", "complex64", "int64", "uint8", "bool")
FILE = Path(__file__).with_name("exceptions.toml")


@dataclass(frozen=True)
class Exceptions:
    """Units that fail. An empty set of modes or dtypes means all of them."""

    entries: frozenset[str]
    modes: frozenset[str]
    dtypes: frozenset[str]
    reason: str
    apart: bool  # a part of PyTorch that this backend does not have yet: its units are counted separately

    def covers(self, entry: str, mode: str, dtype: str) -> bool:
        """Whether a unit is among them."""
        return entry in self.entries and mode in (self.modes or {mode}) and dtype in (self.dtypes or {dtype})


def read(file: Path = FILE) -> list[Exceptions]:
    """All of them, in the order of the file. Throws: ``ValueError`` for an invalid table."""
    found = []
    for apart, key in ((False, "exception"), (True, "apart")):
        for table in tomllib.loads(file.read_text(encoding="utf-8")).get(key, []):
            unknown = table.keys() - {"entries", "modes", "dtypes", "reason"}
            if unknown or not table.get("entries") or not table.get("reason"):
                raise ValueError(
                    f"{file.name}: each [[{key}]] has entries, a reason, and perhaps modes and dtypes, got {table}"
                )
            entries, modes, dtypes = (frozenset(table.get(name, ())) for name in ("entries", "modes", "dtypes"))
            for kind, given, known in (("modes", modes, MODES), ("dtypes", dtypes, DTYPES)):
                if given - set(known):
                    raise ValueError(f"{file.name}: {kind} are {', '.join(known)}, got {', '.join(sorted(given))}")
            found.append(Exceptions(entries, modes, dtypes, table["reason"], apart))
    return found


def excused(exceptions: list[Exceptions], entry: str, mode: str, dtype: str) -> Exceptions | None:
    """The exceptions that excuse a unit, if any."""
    return next((one for one in exceptions if one.covers(entry, mode, dtype)), None)
