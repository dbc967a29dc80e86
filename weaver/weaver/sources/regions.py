"""Marked regions: the parts of a source file that a page may show.

A region lies between two marker comments, each on a line of its own::

    // LITERALINCLUDE START: stream-id-layout
    ...
    // LITERALINCLUDE END: stream-id-layout

This module does not depend on Sphinx. It never raises on a malformed file: it returns the regions and the faults.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LANGUAGES = {
    ".c": "c",
    ".cl": "c",
    ".cc": "cpp",
    ".cpp": "cpp",
    ".h": "cpp",
    ".hpp": "cpp",
    ".md": "markdown",
    ".cmake": "cmake",
    ".py": "python",
    ".pyi": "python",
    ".sh": "bash",
    ".toml": "toml",
    "CMakeLists.txt": "cmake",
    "Makefile": "make",
    "run": "bash",
}

_MARKER = re.compile(r"\s*(?://|\#)\s LITERALINCLUDE\s(?P<kind>START|END):\s(?P<name>\S+)\s*", re.VERBOSE)
_MARKER_LINE = re.compile(r"^[ \t]*(?://|#|<!--) *LITERALINCLUDE (?:START|END):.*\n", re.MULTILINE)
_NOT_PROVEN = re.compile(r"[ \t]*(?://|#) *NOT PROVEN:.*$", re.MULTILINE)
_MENTION = re.compile(r"LITERAL[-_ ]?INCLUDE", re.IGNORECASE)
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
_SKIPPED_FOLDERS = {"__pycache__", "build", "node_modules"}


@dataclass(frozen=True)
class Region:
    """Lines ``first`` to ``last`` (counted from 1, both shown) of ``path``; ``marker`` is the line of its START."""

    name: str
    path: str
    marker: int
    first: int
    last: int


@dataclass(frozen=True)
class Fault:
    """A fault in the markers of a file."""

    path: str
    line: int
    message: str


def language_of(path: Path) -> str | None:
    """Return the highlighting language of a source file, or None if it is unknown."""
    return LANGUAGES.get(path.name) or LANGUAGES.get(path.suffix)


def is_marker(line: str) -> bool:
    """Return whether a line is a well-formed marker."""
    return _MARKER.fullmatch(line) is not None


def without_marks(path: str, text: str) -> str:
    """Return the text of a file without its documentation marks: markers, and why a line is not proven.

    Runs of blank lines that this leaves are collapsed.
    """
    text = _NOT_PROVEN.sub("", _MARKER_LINE.sub("", text))
    most = 3 if path.endswith(".py") else 2  # consecutive line ends
    text = re.sub(rf"\n{{{most},}}", "\n" * most, text)
    return text.lstrip("\n").rstrip("\n") + "\n" if text.strip() else ""


def without_region(text: str, name: str) -> str:
    """Return the text without one region, its markers, and a blank line after it."""
    mark = r"[^\n]*LITERAL" rf"INCLUDE %s: {re.escape(name)}\n"
    return re.sub(mark % "START" + r".*?" + mark % "END" + r"\n?", "", text, flags=re.DOTALL)


def parse(path: str, lines: list[str]) -> tuple[list[Region], list[Fault]]:
    """Return the well-formed regions of one file, in order, and every fault of its markers."""
    regions: list[Region] = []
    faults: list[Fault] = []
    opened: tuple[str, int] | None = None
    broken: set[str] = set()
    for number, line in enumerate(lines, start=1):
        match = _MARKER.fullmatch(line)
        if match is None:
            if _MENTION.search(line):
                faults.append(
                    Fault(path, number, "malformed marker: write `LITERALINCLUDE START: name` alone in a comment line")
                )
            continue
        kind, name = match["kind"], match["name"]
        if not _NAME.fullmatch(name):
            faults.append(Fault(path, number, f"region name `{name}` is not kebab-case of two words or more"))
        if kind == "START":
            if opened is not None:
                faults.append(
                    Fault(path, number, f"region `{name}` starts inside region `{opened[0]}` of line {opened[1]}")
                )
                broken.update((name, opened[0]))
                continue
            opened = (name, number)
        elif opened is None or opened[0] != name:
            inside = f"region `{opened[0]}` of line {opened[1]} is open" if opened else "no region is open"
            if name not in broken:
                faults.append(Fault(path, number, f"END of region `{name}`, but {inside}"))
        else:
            region = _trimmed(name, path, opened[1], number, lines)
            if region is None:
                faults.append(Fault(path, opened[1], f"region `{name}` is empty"))
            elif name not in broken:
                regions.append(region)
            opened = None
    if opened is not None:
        faults.append(Fault(path, opened[1], f"region `{opened[0]}` has no END"))
    return regions, faults


def _trimmed(name: str, path: str, start: int, end: int, lines: list[str]) -> Region | None:
    shown = [number for number in range(start + 1, end) if lines[number - 1].strip()]
    return Region(name, path, start, shown[0], shown[-1]) if shown else None


def check_names(regions: Iterable[Region]) -> list[Fault]:
    """Return a fault for each duplicate name, and for each name with another as its prefix.

    Prefixes are refused because stock Sphinx finds markers by substring and would take the first.
    """
    faults: list[Fault] = []
    ordered = sorted(regions, key=lambda region: (region.name, region.path, region.marker))
    for index, region in enumerate(ordered):
        for other in ordered[index + 1 :]:
            if not other.name.startswith(region.name):
                break
            where = f"{region.path}:{region.marker}"
            if other.name == region.name:
                message = f"region `{other.name}` is also marked at {where}; names are unique in the repository"
            else:
                message = f"the name of region `{other.name}` begins with that of region `{region.name}` at {where}"
            faults.append(Fault(other.path, other.marker, message))
    return faults


def source_files(root: Path, entries: Iterable[str]) -> Iterator[Path]:
    """Yield the source files among ``entries``, which are files and folders relative to ``root``, in a stable order."""
    for entry in entries:
        start = root / entry
        if start.is_file():
            yield start
        for folder, subfolders, names in os.walk(start):
            subfolders[:] = sorted(name for name in subfolders if name not in _SKIPPED_FOLDERS and name[0] != ".")
            for name in sorted(names):
                path = Path(folder, name)
                if language_of(path) is not None:
                    yield path


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file without line ends."""
    return path.read_text(encoding="utf-8").splitlines()


def scan(root: Path, entries: Iterable[str]) -> tuple[dict[str, Region], list[Fault]]:
    """Return all regions of the repository by name, and all faults of its markers."""
    regions: list[Region] = []
    faults: list[Fault] = []
    for file in source_files(root, entries):
        found, wrong = parse(file.relative_to(root).as_posix(), read_lines(file))
        regions += found
        faults += wrong
    faults += check_names(regions)
    return {region.name: region for region in regions}, sorted(faults, key=lambda fault: (fault.path, fault.line))
