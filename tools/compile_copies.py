"""Compiles the texts that the copy buttons of the pages provide, each alone, and lists those that do not compile.

All of them take an hour, so no make target does this. Arguments name files or folders of csrc; run `make html` first:

    nice .venv/bin/python tools/compile_copies.py csrc/driver csrc/kernels/loops/abs.cpp
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from environment import ROOT

sys.path.insert(0, str(ROOT / "weaver"))

from compile_alone import command_for, target_flags
from extension import build_folder
from weaver.sources.regions import scan
from weaver.sources.standalone import standalone

_SUFFIXES = {".cpp", ".h"}
# A reader who copies a function also calls it; the copy alone does not.
_UNUSED = ("-Wno-unused-function", "-Wno-unused-variable", "-Wno-unused-const-variable")


def copies(paths: Sequence[str], root: Path = ROOT) -> dict[tuple[Path, str], list[str]]:
    """The C++ regions below the paths, by file and the text that their copy button provides."""
    found: dict[tuple[Path, str], list[str]] = {}
    for region in scan(root, paths)[0].values():
        if Path(region.path).suffix in _SUFFIXES:
            text = (root / region.path).read_text(encoding="utf-8")
            copied = standalone(region.path, text, region.first, region.last, region.path).text
            found.setdefault((Path(region.path), copied), []).append(region.name)
    return found


def faults(compile_commands: Path, paths: Sequence[str]) -> Iterator[str]:
    """Yields the regions whose text does not compile, with the compiler's messages."""
    flags = target_flags(compile_commands)

    def compile_one(path: Path, text: str, names: list[str]) -> str:
        command = [*command_for(path.with_suffix(".cpp"), flags)[:-1], *_UNUSED, "-iquote", str(path.parent)]
        ran = subprocess.run(
            [*command, "-x", "c++", "-"], input=text, capture_output=True, text=True, check=False, cwd=ROOT
        )
        return f"{path}: {', '.join(names)}:\n{ran.stderr}" if ran.returncode else ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tasks = [pool.submit(compile_one, path, text, names) for (path, text), names in copies(paths).items()]
        yield from filter(None, (task.result() for task in tasks))


def main(paths: Sequence[str]) -> int:
    """Compiles the copies below the paths, and returns the exit status."""
    compile_commands = build_folder() / "compile_commands.json"
    if not compile_commands.is_file():
        needed = os.path.relpath(compile_commands, ROOT)
        print(f"compile_copies: {needed} has the compiler's flags, and is not there; run `make build`", file=sys.stderr)
        return 1
    found = list(faults(compile_commands, paths or ["csrc"]))
    for fault in found:
        print(fault)
    total = copies(paths or ["csrc"])
    print(f"{len(found)} of {len(total)} texts, of {sum(map(len, total.values()))} regions, do not compile")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
