"""Files of the installed torch, found without importing it, and regions of them by pattern."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from hashlib import sha256
from pathlib import Path

_VERSION = re.compile(r"""^__version__ = ['"]([^'"+]+)""", re.MULTILINE)
PREFIXES = {"torch": "include", "torch-py": ""}


@cache
def torch_folder() -> Path:
    """Return the folder of the installed torch package. Throws: ``LookupError`` when there is none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise LookupError("torch is not installed: its files cannot be shown; run `make build` first")
    return Path(spec.origin).parent


@cache
def torch_version() -> str:
    """Return the release of the installed torch, without the part that names its build (``2.13.0+cpu``: 2.13.0)."""
    match = _VERSION.search((torch_folder() / "version.py").read_text(encoding="utf-8"))
    if match is None:
        raise LookupError(f"{torch_folder() / 'version.py'} does not say which version of torch this is")
    return match[1]


def is_torch_path(argument: str) -> bool:
    """Say whether ``argument`` names a file of torch: ``torch:`` a header, ``torch-py:`` a file of its package."""
    return argument.partition(":")[0] in PREFIXES and ":" in argument


def locate(argument: str) -> Path:
    """Return the file of a path such as ``torch:ATen/Context.h``. Throws: ``LookupError`` when there is none."""
    prefix, _, relative = argument.partition(":")
    path = torch_folder() / PREFIXES[prefix] / relative
    if not path.is_file():
        raise LookupError(f"torch {torch_version()} has no file {relative} (looked for {path})")
    return path


def find_region(lines: list[str], start: str, end: str | None) -> tuple[int, int]:
    """Return first and last line, counted from 1, of the region that ``start`` opens and ``end`` closes.

    ``start`` occurs in exactly one line of the file; ``end`` in the first line from there on. Without ``end`` the
    region is the one line. Throws: ``LookupError``.
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
