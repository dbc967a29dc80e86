"""What a measurement is bound to: the sources that ran, the examples that ran them, and a release.

A measurement of other code, other examples or another release does not apply to what a page shows now. The binding
excludes what the measurement did not run, and prose, comments and layout: a corrected sentence makes no measurement
stale, and a changed kernel only those of the pages that execute it.
"""

from __future__ import annotations

import io
import json
import os
import re
import tokenize
import tomllib
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weaver.sources.installed import bound_to
from weaver.sources.regions import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weaver.configuration import Configuration
    from weaver.sources.listing import Listing
    from weaver.sources.scripts import Scripts

_OTHER_FOLDERS = {"__pycache__", "lib", "tests"}
_BUILT_FILES = {"_build_info.py"}
_BUILT_SUFFIXES = {".so", ".pyc"}
_SHORT = 12
_CXX = {".cpp", ".h"}
_CXX_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_CMAKE_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|#\[(?P<equals>=*)\[.*?\](?P=equals)\]|#[^\n]*', re.DOTALL)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def code_files(root: Path, entries: Iterable[str]) -> Iterator[Path]:
    """Yield the files of ``entries``, files and folders below ``root``, in a stable order.

    Build outputs, editor backups and tests are excluded.
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
    """Return whether a build writes a file, so that its text differs between environments."""
    return Path(path).name in _BUILT_FILES or Path(path).suffix in _BUILT_SUFFIXES


def code_digest(file: Path) -> str:
    """Return the hash of the code of a file; empty when there is no such file.

    Comments, layout and the docstrings of Python are excluded, for C++, Python, CMake and TOML. Of any other file the
    hash covers every byte.
    """
    return _digest_of_code(file.name, file.read_bytes()) if file.is_file() else ""


def code(file: Path) -> str:
    """Return the text of a file without comments and docstrings; Python with blanks between its tokens.

    Throws: ``FileNotFoundError``.
    """
    data, suffix = file.read_bytes(), file.suffix
    if suffix in _CXX:
        data = _words(_CXX_COMMENT, data)
    elif suffix == ".py":
        lines: dict[int, list[str]] = {}
        for line, text in _python_code(data):
            lines.setdefault(line, []).append(text)
        return "\n".join(map(" ".join, lines.values()))
    return data.decode("utf-8", errors="replace")


@lru_cache(maxsize=4096)
def _digest_of_code(name: str, data: bytes) -> str:
    suffix = Path(name).suffix
    if suffix in _CXX:
        data = _words(_CXX_COMMENT, data)
    elif suffix == ".cmake" or name == "CMakeLists.txt":
        data = _words(_CMAKE_COMMENT, data)
    elif suffix == ".py":
        data = json.dumps([text for _, text in _python_code(data)]).encode()
    elif suffix == ".toml":
        data = json.dumps(tomllib.loads(data.decode("utf-8")), default=str).encode()
    return sha256(data).hexdigest()[:_SHORT]


def _words(comment: re.Pattern[str], data: bytes) -> bytes:
    return " ".join(comment.sub(_without_comment, data.decode("utf-8")).split()).encode()


def _without_comment(match: re.Match[str]) -> str:
    return match[0] if match[0][0] == '"' else " "


def included(configuration: Configuration, paths: Iterable[str], root: Path) -> set[str]:
    """Return the sources ``paths`` below ``root`` and the headers that they include, directly or through others.

    The constants and types of a header affect what runs, but no counter records their use.
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
                candidates = [f"{folder}/{name}" for folder in (str(Path(path).parent), *configuration.include_folders)]
                waiting += [one for one in candidates if (root / one).is_file()][:1]
    return found


def run_digest(blocks: Iterable[Mapping[str, Any]], scripts: Scripts) -> str:
    """Return the hash of what a page runs: ``blocks`` are its executed blocks as ``asdict`` gives them.

    It covers the scripts that they run. Line numbers are excluded, so an example that only moves keeps the hash.
    """
    run = [[block["kind"], block["group"], [_run(step, scripts) for step in block["steps"]]] for block in blocks]
    return sha256(json.dumps(run).encode()).hexdigest()


def _run(step: Mapping[str, Any], scripts: Scripts) -> list[Any]:
    files = scripts.run_by(step["source"])
    return [step["source"], step["want"], step["status"], *([files] if files else [])]


def text_digest(listing: Listing, root: Path) -> str:
    """Return the hash of what a listing shows, independent of its position in the file."""
    return sha256(json.dumps(_text(listing, root)).encode()).hexdigest()[:_SHORT]


def step_digest(source: str, want: str, scripts: Scripts) -> str:
    """Return the hash of one example: of its source, its expected output, and the scripts that it runs."""
    files = "".join(f"\0{path}\0{digest}" for path, digest in scripts.run_by(source).items())
    return sha256(f"{source}\0{want}{files}".encode()).hexdigest()[:8]


def region_digest(listing: Listing, configuration: Configuration, pages: Iterable[str] = ()) -> str:
    """Return the hash of what the mutants of a listing are made from: the code shown, and the release.

    With the digests of the ``pages`` that show it, the hash also covers what the mutants were tried with.
    """
    code = _code(listing, configuration.root)
    return sha256(json.dumps([code, sorted(pages), bound_to(configuration)[1]]).encode()).hexdigest()


def _code(listing: Listing, root: Path) -> list[str]:
    """Return what a listing shows without comments and layout, which have no mutants."""
    suffix = Path(listing.path).suffix
    if suffix in _CXX:
        return _CXX_COMMENT.sub(_without_comment, "\n".join(_text(listing, root))).split()
    if suffix == ".py":
        tokens = _python_code((root / listing.path).read_bytes())
        return [text for line, text in tokens if listing.first <= line <= listing.last]
    return _text(listing, root)


@lru_cache(maxsize=256)
def _python_code(data: bytes) -> list[tuple[int, str]]:
    """Return the tokens of a file, each with its line, without comments and docstrings; of no Python, the lines."""
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING}
    try:
        tokens = [one for one in tokenize.tokenize(io.BytesIO(data).readline) if one.type not in layout]
    except (tokenize.TokenError, SyntaxError):
        return list(enumerate(data.decode("utf-8", errors="replace").splitlines(), 1))
    starts = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    found = []
    for index, one in enumerate(tokens):
        begins = index == 0 or tokens[index - 1].type in starts
        ends = index + 1 < len(tokens) and tokens[index + 1].type == tokenize.NEWLINE
        if not (one.type == tokenize.STRING and begins and ends):
            found.append((one.start[0], one.string))
    return found


def _text(listing: Listing, root: Path) -> list[str]:
    return read_lines(root / listing.path)[listing.first - 1 : listing.last]
