"""Compiles every C++ source and header by itself.

The unity build hides a missing include behind the source that happens to stand before it in the batch. Flags are
those of the real build, from its compile_commands.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Which target's flags a folder of csrc compiles with; every other folder is part of the backend.
TARGETS = {"driver": "openreg", "python": "_C", "stable": "openreg_stable"}
BACKEND = "torch_openreg"


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
    """The command that checks one file. A header is included into nothing, since it may not be the main file."""
    layer = path.parts[1] if len(path.parts) > 2 else ""
    common = [*flags[TARGETS.get(layer, BACKEND)], "-fsyntax-only"]
    if path.suffix == ".h":
        return [*common, "-x", "c++", "-include", str(path), os.devnull]
    return [*common, str(path)]


def faults(compile_commands: Path, paths: Iterable[Path]) -> Iterator[str]:
    """Yields the compiler's messages for each file that does not compile by itself.

    A file that did is not compiled again until it, a header of ours or its command has changed: a mark beside
    compile_commands says so.
    """
    flags = target_flags(compile_commands)
    marks = compile_commands.parent / "compiled_alone"
    marks.mkdir(exist_ok=True)
    paths = list(paths)
    headers = hashlib.sha256(b"".join(path.read_bytes() for path in paths if path.suffix == ".h")).hexdigest()

    def compile_one(path: Path) -> str:
        command = command_for(path, flags)
        mark = marks / hashlib.sha256("\n".join([headers, *command, path.read_text()]).encode()).hexdigest()
        if mark.exists():
            return ""
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            return f"{path} does not compile alone:\n{ran.stderr}"
        mark.touch()
        return ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from filter(None, pool.map(compile_one, paths))
