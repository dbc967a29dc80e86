"""Compiles every C++ source and header alone.

The unity build hides a missing include if a source earlier in the batch has it. The flags are those of the real build,
from its compile_commands.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from share import ALL, Share

# The target with whose flags the sources below a folder compile; every other folder is part of the backend.
TARGETS = {"driver": "openreg", "python": "_C", "stable": "openreg_stable"}
BACKEND = "torch_openreg"
# The first include of a file, and its path if it includes a file of ours.
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<[^>]+>)', re.MULTILINE)


def target_flags(compile_commands: Path) -> dict[str, list[str]]:
    """The compiler and its flags for each target, without input, output and compiler launcher."""
    flags: dict[str, list[str]] = {}
    for entry in json.loads(compile_commands.read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])
        if Path(words[0]).name == "ccache":
            words = words[1:]
        output = words[words.index("-o") + 1]
        target = next(part.removesuffix(".dir") for part in Path(output).parts if part.endswith(".dir"))
        flags.setdefault(target, _without_precompiled(words[: words.index("-o")]))
    return flags


def _without_precompiled(words: list[str]) -> list[str]:
    """The command without the precompiled headers, which every source would seem to include."""
    forced = {i for i, word in enumerate(words) if word == "-include" and Path(words[i + 1]).stem == "cmake_pch"}
    language = {i for i, word in enumerate(words) if word == "-x"}  # of the command that precompiles them
    dropped = {i + offset for i in forced | language for offset in (0, 1)}
    return [word for i, word in enumerate(words) if i not in dropped and word != "-Winvalid-pch"]


def command_for(path: Path, flags: dict[str, list[str]]) -> list[str]:
    """The command that checks one file. A header is included into an empty file, since it may not be the main file."""
    target = next((TARGETS[folder] for folder in path.parts[1:-1] if folder in TARGETS), BACKEND)
    common = [*flags[target], "-fsyntax-only"]
    if path.suffix == ".h":
        return [*common, "-x", "c++", "-include", str(path), os.devnull]
    return [*common, str(path)]


def opened(paths: Iterable[Path]) -> set[Path]:
    """The headers that a source in the same folder includes first: it compiles only if the header compiles alone."""
    known = set(paths)
    found = set()
    for source in (path for path in known if path.suffix == ".cpp"):
        first = INCLUDE.search(source.read_text(encoding="utf-8"))
        if first and first.group(1):
            beginning = source.parent / Path(first.group(1)).name
            if str(beginning).endswith(f"/{first.group(1)}") and beginning in known:
                found.add(beginning)
    return found


def faults(compile_commands: Path, paths: Iterable[Path], part: Share = ALL) -> Iterator[str]:
    """Yields the compiler's messages for each file, or each of a share, that does not compile alone.

    A file that compiled is not compiled again until the compiler, its command, or one of our files that it reads has
    changed: a mark next to compile_commands, which belongs to one PyTorch, records these.
    """
    flags = target_flags(compile_commands)
    marks = compile_commands.parent / "compiled_alone"
    marks.mkdir(exist_ok=True)
    paths = list(paths)
    opening = opened(paths)
    asked = part.take([path for path in paths if path not in opening])
    digest = cache(_digest)

    def compile_one(path: Path) -> str:
        command = command_for(path, flags)
        key = hashlib.sha256("\n".join([_version(command[0]), *command]).encode()).hexdigest()
        mark = marks / hashlib.sha256(str(path).encode()).hexdigest()
        if mark.exists():
            known, *lines = mark.read_text(encoding="utf-8").splitlines() or [""]  # empty after a full disk
            if known == key and all(digest(Path(line[65:])) == line[:64] for line in lines):
                return ""
        with tempfile.NamedTemporaryFile("r", suffix=".d") as rule:
            listing = [command[0], "-MMD", "-MF", rule.name, *command[1:]]
            ran = subprocess.run(listing, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if ran.returncode != 0:
                return f"{path} does not compile alone:\n{ran.stderr}"
            mine = sorted(filter(_is_ours, map(Path.absolute, _read_by(rule.read()))))
        mark.write_text("\n".join([key, *(f"{digest(file)} {file}" for file in mine)]), encoding="utf-8")
        return ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from filter(None, pool.map(compile_one, asked))


def _read_by(rule: str) -> Iterator[Path]:
    """Yields the files that a compiler read, from its rule for make: blanks and # are escaped there, $ is doubled."""
    for word in re.findall(r"(?:\\.|[^\s\\])+", rule.replace("\\\n", " ").partition(":")[2]):
        yield Path(re.sub(r"\\([ #\\])", r"\1", word).replace("$$", "$"))


def _is_ours(file: Path) -> bool:
    """Whether a file is in the repository, but not in an environment there, whose headers are PyTorch's."""
    return Path.cwd() in file.parents and Path(sys.prefix) not in file.parents


def _digest(file: Path) -> str:
    """The digest of a file; for one that is gone, a value that no file has."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "0" * 64


def main(compile_commands: str, path: str) -> int:
    """Compiles one file, and returns the exit status. The weaver runs this for sources that are in no target."""
    command = command_for(Path(path), target_flags(Path(compile_commands)))
    return subprocess.run([*command[:-1], str(Path(path).absolute())], check=False).returncode


@cache
def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
