"""clang and its coverage tools: finds them, and reads the counters."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from weaver.fault import Fault

# Older versions do not compile std::source_location of libstdc++.
OLDEST = 16


@dataclass(frozen=True)
class Clang:
    """The compiler and the two tools of one LLVM version, by their paths."""

    compiler: str
    profdata: str
    cov: str


def find_clang() -> Clang:
    """The newest clang on PATH that has its coverage tools. Throws: ``Fault``."""
    found = []
    folders = [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if Path(entry).is_dir()]
    for folder in folders:
        for file in folder.glob("clang++*"):
            suffix = file.name.removeprefix("clang++")
            tools = [shutil.which(f"{name}{suffix}", path=str(folder)) for name in ("llvm-profdata", "llvm-cov")]
            if re.fullmatch(r"(-\d+)?", suffix) and tools[0] and tools[1]:
                found.append((_version(str(file)), Clang(str(file), tools[0], tools[1])))
    version, clang = max(found, key=lambda pair: pair[0], default=(0, None))
    if clang is None or version < OLDEST:
        has = f"clang {version}" if clang else "none"
        raise Fault(
            f"coverage needs clang {OLDEST} or newer with llvm-profdata and llvm-cov on PATH, found {has}; "
            "Debian: apt-get install clang-19 llvm-19 libclang-rt-19-dev"
        )
    return clang


def _version(compiler: str) -> int:
    ran = subprocess.run(
        [compiler, "-dumpversion"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    match = re.match(r"\d+", ran.stdout)
    return int(match.group()) if match else 0


def merge(clang: Clang, raw: list[Path], target: Path) -> None:
    """Merges raw profiles."""
    files = "".join(f"{file}\n" for file in raw)
    command = [clang.profdata, "merge", "-sparse", "-f", "-", "-o", str(target)]
    _run(command, files)


def counting(clang: Clang, profile: Path) -> list[str]:
    """The build IDs of the libraries whose counters a profile contains; none when all counters are 0."""
    said, _, ids = _run([clang.profdata, "show", "--binary-ids", str(profile)]).partition("Binary IDs:")
    return ids.split() if re.search(r"^Maximum .* count: [1-9]", said, re.MULTILINE) else []


def line_counts(clang: Clang, profile: Path, objects: list[Path], folders: list[Path]) -> dict[str, dict[int, int]]:
    """How often each line of each source ran, by path relative to the one of ``folders`` that contains the source."""
    counts: dict[str, dict[int, int]] = {}
    if not objects:
        return counts
    lines: dict[int, int] = {}
    for record in _export(clang, "lcov", profile, objects).splitlines():
        kind, _, rest = record.partition(":")
        if kind == "SF":
            lines = counts.setdefault(_relative(Path(rest), folders), {})
        elif kind == "DA":
            number, count = rest.split(",")[:2]
            lines[int(number)] = lines.get(int(number), 0) + int(count)
    return counts


def registration_lines(
    clang: Clang, profile: Path, objects: list[Path], folders: list[Path], loaded: str
) -> dict[str, set[int]]:
    """The lines of each source that run once, when the library is loaded: its registrations and bindings.

    These are the lines of functions whose names match the pattern ``loaded``, without the bodies of the lambdas that
    they register.
    """
    blocks: dict[str, set[int]] = {}
    others: dict[str, set[int]] = {}
    for function in json.loads(_export(clang, "text", profile, objects))["data"][0]["functions"]:
        of_kind = blocks if re.search(loaded, function["name"]) else others
        path = _relative(Path(function["filenames"][0]), folders)
        first, last = function["regions"][0][0], function["regions"][0][2]
        of_kind.setdefault(path, set()).update(range(first, last + 1))
    return {path: lines - others.get(path, set()) for path, lines in blocks.items()}


def _export(clang: Clang, kind: str, profile: Path, objects: list[Path]) -> str:
    others = [word for one in objects[1:] for word in ("-object", str(one))]
    return _run([clang.cov, "export", f"-format={kind}", "-instr-profile", str(profile), str(objects[0]), *others])


def _relative(path: Path, folders: list[Path]) -> str:
    inside = next((folder for folder in folders if path.is_relative_to(folder)), None)
    return str(path.relative_to(inside)) if inside else str(path)


def _run(command: list[str], text: str | None = None) -> str:
    ran = subprocess.run(command, input=text or "", capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise Fault(f"{' '.join(command[:2])} failed: {ran.stderr.strip()}")
    return ran.stdout
