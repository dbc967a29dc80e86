"""Files of an installed package, found without importing it, and regions of them by pattern."""

from __future__ import annotations

import importlib.util
import platform
import tomllib
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weaver.configuration import Configuration, Installed


@cache
def folder(package: str) -> Path:
    """Return the folder of a package. Throws: ``LookupError`` when it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise LookupError(f"{package} is not installed: its files cannot be shown")
    return Path(spec.origin).parent


@cache
def release(package: str) -> str:
    """Return the installed release without its build label (``2.13.0+cpu``: 2.13.0)."""
    try:
        return metadata.version(package).partition("+")[0]
    except metadata.PackageNotFoundError:
        raise LookupError(f"{package} is not installed") from None


def bound_to(configuration: Configuration) -> tuple[str, str]:
    """Return the name and release to which results are bound: the installed package, otherwise Python."""
    package = configuration.installed.package
    return (package, release(package)) if package else ("python", ".".join(platform.python_version_tuple()[:2]))


def supported_series(configuration: Configuration) -> list[str]:
    """Return the series of the package in the project's list of supported releases, oldest first."""
    file, _, keys = configuration.installed.releases.partition("#")
    if not file:
        return []
    found = tomllib.loads((configuration.root / file).read_text(encoding="utf-8"))
    for key in keys.split("."):
        found = found[key]
    series = {tuple(map(int, release.split(".")[:2])) for release in found}
    return [".".join(map(str, numbers)) for numbers in sorted(series)]


def title(configuration: Configuration) -> str:
    """Return the name of the installed package for readers."""
    return configuration.installed.title or bound_to(configuration)[0]


def is_path(installed: Installed, argument: str) -> bool:
    """Return whether ``argument`` names a file of the package: ``prefix:path``, with a configured prefix."""
    return argument.partition(":")[0] in installed.prefixes and ":" in argument


def locate(installed: Installed, argument: str) -> Path:
    """Return the file of a path such as ``torch:ATen/Context.h``. Throws: ``LookupError`` when there is none."""
    prefix, _, relative = argument.partition(":")
    path = folder(installed.package) / installed.prefixes[prefix] / relative
    if not path.is_file():
        raise LookupError(
            f"{installed.package} {release(installed.package)} has no file {relative} (looked for {path})"
        )
    return path


def home(installed: Installed, argument: str, first: int = 0, last: int = 0) -> str:
    """Return the URL of a file in the repository of the package; with ``first`` and ``last``, of these lines.

    Empty when the repository does not have the file. Throws: ``LookupError`` when the package does not.
    """
    start = max((start for start in installed.folders if argument.startswith(start)), key=len, default="")
    if not installed.repository or not installed.folders.get(start):
        return ""
    path = installed.folders[start] + argument.removeprefix(start)
    address = installed.repository.format(release=release(installed.package), path=path)
    if not first:
        return address
    with locate(installed, argument).open(encoding="utf-8") as file:
        before = 1 if installed.added and file.readline().rstrip("\n") == installed.added else 0
    return f"{address}#L{first - before}" + (f"-L{last - before}" if last > first else "")


def find_region(lines: list[str], start: str, end: str | None) -> tuple[int, int]:
    """Return the first and last line, counted from 1, of the region that ``start`` opens and ``end`` closes.

    ``start`` must occur in exactly one line of the file; the region ends at the first line from there that contains
    ``end``. Without ``end``, the region is one line. Throws: ``LookupError``.
    """
    starts = [number for number, line in enumerate(lines, start=1) if start in line]
    if len(starts) != 1:
        where = f" (lines {', '.join(map(str, starts))})" if starts else ""
        raise LookupError(f":start-at: `{start}` occurs in {len(starts)} lines{where}, and must occur in one")
    first = starts[0]
    if end is None:
        return first, first
    for number in range(first, len(lines) + 1):
        if end in lines[number - 1]:
            return first, number
    raise LookupError(f":end-at: `{end}` does not occur at or after line {first}")


def digest(text: str) -> str:
    """Return the hash under which the lock file keeps a region's text."""
    return sha256(text.encode()).hexdigest()
