"""What a measurement is bound to: the sources that ran, the examples that ran them, and the release of torch.

A measurement of other code, of other examples or of another torch says nothing about what a page shows now. What the
measurement did not run is no part of the binding, and neither are prose, comments and layout: a corrected sentence
makes no measurement stale, and a changed kernel only those of the pages that execute it.
"""

from __future__ import annotations

import io
import json
import os
import re
import tokenize
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs._ext.regions import read_lines
from docs._ext.torch_files import torch_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from docs._ext.records import Listing

__all__ = [
    "INCLUDE_FOLDERS",
    "code_digest",
    "code_files",
    "included",
    "is_built",
    "region_digest",
    "registered_operators",
    "run_digest",
    "text_digest",
    "torch_version",
]

_OTHER_FOLDERS = {"__pycache__", "lib", "tests"}
_BUILT_FILES = {"_build_info.py"}
_BUILT_SUFFIXES = {".so", ".pyc"}
_SHORT = 12
_CXX = {".cpp", ".h"}
_CXX_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# The folders in which the compiler looks for a header.
INCLUDE_FOLDERS = ("csrc", "csrc/driver")
_SURFACE = Path("docs", "proof", "surface.txt")


def code_files(root: Path, entries: Iterable[str]) -> Iterator[Path]:
    """Yield the files of ``entries``, files and folders below ``root``, in a stable order.

    What a build or an editor leaves among them is not part of it, and neither are their tests.
    """
    for entry in entries:
        if (root / entry).is_file():
            yield root / entry
        for folder, subfolders, names in os.walk(root / entry):
            subfolders[:] = sorted(name for name in subfolders if name not in _OTHER_FOLDERS and name[0] != ".")
            for name in sorted(names):
                left_over = name[0] == "." or name[-1] == "~"
                if not (left_over or is_built(name)):
                    yield Path(folder, name)


def is_built(path: str) -> bool:
    """Return whether a file is written by the build, so that its text is another one in each environment."""
    return Path(path).name in _BUILT_FILES or Path(path).suffix in _BUILT_SUFFIXES


def code_digest(file: Path) -> str:
    """Return the hash of the code of a file, without comments and layout; empty when there is no such file."""
    return _digest_of_code(file.suffix, file.read_bytes()) if file.is_file() else ""


@lru_cache(maxsize=4096)
def _digest_of_code(suffix: str, data: bytes) -> str:
    if suffix in _CXX:
        data = " ".join(_CXX_COMMENT.sub(_without_comment, data.decode("utf-8")).split()).encode()
    elif suffix == ".py":
        layout = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING}
        tokens = tokenize.tokenize(io.BytesIO(data).readline)
        data = json.dumps([(one.type, one.string) for one in tokens if one.type not in layout]).encode()
    return sha256(data).hexdigest()[:_SHORT]


def _without_comment(match: re.Match[str]) -> str:
    return match[0] if match[0][0] == '"' else " "


def included(root: Path, paths: Iterable[str]) -> set[str]:
    """Return the sources ``paths`` and the headers of ours that they include, directly or through others.

    The constants and types of a header decide what runs, and no counter says that they were used.
    """
    found: set[str] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if Path(path).suffix in _CXX and (root / path).is_file():
            for name in _INCLUDE.findall((root / path).read_text(encoding="utf-8")):
                candidates = [f"{folder}/{name}" for folder in (str(Path(path).parent), *INCLUDE_FOLDERS)]
                waiting += [one for one in candidates if (root / one).is_file()][:1]
    return found


def registered_operators(root: Path) -> set[str]:
    """Return the operators that the backend registers, as docs/proof/surface.txt has them; none without the file."""
    file = root / _SURFACE
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return {line.partition("(")[0].partition(": ")[0] for line in text.partition("[operators]\n")[2].splitlines()}


def run_digest(blocks: Iterable[Mapping[str, Any]]) -> str:
    """Return the hash of what a page runs: ``blocks`` are its executed blocks as ``asdict`` gives them.

    No line number counts, so an example that moves without a change keeps the hash.
    """
    run = [
        [block["kind"], block["group"], [[step["source"], step["want"], step["status"]] for step in block["steps"]]]
        for block in blocks
    ]
    return sha256(json.dumps(run).encode()).hexdigest()


def text_digest(listing: Listing, root: Path) -> str:
    """Return the hash of what a listing shows, wherever in its file it stands."""
    return sha256(json.dumps(_text(listing, root)).encode()).hexdigest()[:_SHORT]


def region_digest(listing: Listing, pages: Iterable[str], root: Path) -> str:
    """Return the hash to which the mutants of a listing are bound.

    It is made of the text shown, of the digests of what the ``pages`` run that show it, whose examples are to kill the
    mutants, and of the release of torch.
    """
    return sha256(json.dumps([_text(listing, root), sorted(pages), torch_version()]).encode()).hexdigest()


def _text(listing: Listing, root: Path) -> list[str]:
    return read_lines(root / listing.path)[listing.first - 1 : listing.last]
