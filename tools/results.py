"""Committed results: each records the sources that it was made from, so that `make check` reports when it is stale.

For each result, docs/proof/inputs.json has the hash of each of these sources, without comments, docstrings and
layout, and the version of PyTorch. The proof of the pages records its own sources (docs/proof/lines.json).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from driver import default, installed
from prerequisites import installed_torch, is_reference_torch

# Not installed, and not on the path of every script that records a result.
sys.path.append(str(Path(__file__).resolve().parents[1] / "weaver"))

from weaver.sources.binding import code_digest

INPUTS = Path("docs", "proof", "inputs.json")
_TORCH = "PyTorch"


@dataclass(frozen=True)
class Result:
    """The file ``path``, which ``command`` makes from the sources that ``patterns`` find below the root.

    It also depends on the sources of ``tested``, but a change of these does not make it stale: tests check the same, or
    a part of it, at every change, so a change that would invalidate the result fails a test.
    """

    path: Path
    patterns: tuple[str, ...]
    command: str
    tested: tuple[str, ...] = ()

    def inputs(self, root: Path = Path()) -> dict[str, str]:
        """The current hash of each source of ``patterns``, by its path; for PyTorch, its version."""
        return {_TORCH: str(installed_torch()).partition("+")[0]} | _hashes(root, self.patterns)

    def digest(self, root: Path = Path(), driver: Path = Path("csrc", "driver")) -> str:
        """One hash of all that the result depends on; ``driver`` is the folder of the driver that it is made with."""
        made_from = self.inputs(root) | _hashes(root, self.tested) | _hashes_of_driver(root, driver)
        return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()

    def note(self, root: Path = Path()) -> None:
        """Records that the result was made from the current sources, if it was made with the defaults."""
        if installed() not in (None, default()) or not is_reference_torch(str(installed_torch())):
            return
        known = _read(root) | {self.path.as_posix(): self.inputs(root)}
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(inputs)}" for name, inputs in sorted(known.items()))
        (root / INPUTS).parent.mkdir(parents=True, exist_ok=True)
        (root / INPUTS).write_text("{\n" + lines + "\n}\n", encoding="utf-8")

    def stale(self, root: Path = Path()) -> Iterator[str]:
        """Yields the fault of the result, if any: which source has changed, and the command that renews the result."""
        if not (root / self.path).is_file():
            yield f"{self.path} is missing: run `{self.command}`"
            return
        before, now = _read(root).get(self.path.as_posix()), self.inputs(root)
        if before is None:
            yield f"{self.path}: {INPUTS} does not say what it was made from: run `{self.command}`"
            return
        changed = [name for name in {*before, *now} if before.get(name) != now.get(name)]
        if changed:
            changed.sort(key=lambda name: (name != _TORCH, name))
            more = f" (and {len(changed) - 1} more)" if len(changed) > 1 and changed[0] != _TORCH else ""
            yield f"{self.path}: {changed[0]}{more} changed since it was made: run `{self.command}`"


def _hashes(root: Path, patterns: tuple[str, ...]) -> dict[str, str]:
    files = sorted({file for pattern in patterns for file in root.glob(pattern) if file.is_file()})
    return {file.relative_to(root).as_posix(): code_digest(file) for file in files}


def _hashes_of_driver(root: Path, folder: Path) -> dict[str, str]:
    """The hashes of all files of a driver: which of them it compiles or reads is not known. Those of csrc are above."""
    if folder.is_relative_to("csrc"):
        return {}
    top = root / folder
    files = (file for file in sorted(top.rglob("*")) if file.is_file())
    return {f"driver/{file.relative_to(top)}": hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _read(root: Path) -> dict[str, dict[str, str]]:
    file = root / INPUTS
    known: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return known


# All that decides what an operator computes: a stream, an allocator or the Python package as well as a kernel.
_BACKEND = (
    *(f"csrc/**/{name}" for name in ("*.cpp", "*.h", "*.py", "*.toml", "*.cl", "CMakeLists.txt")),
    "torch_openreg/**/*.py",
)

# tests/models trains each model on both devices, and requires equal losses and no fallback.
MODELS = Result(
    Path("benchmarks", "results", "models.md"),
    (
        *(f"tests/models/{name}.py" for name in ("networks", "language", "training")),
        *(f"benchmarks/{name}.py" for name in ("models", "_turns")),
    ),
    "make models",
    tested=_BACKEND,
)

# The list of exceptions is not an input: it is compared with the outcome, and does not change it. The tests run one
# unit of each entry, and .ci/run another unit for each commit.
OPINFO = Result(
    Path("docs", "proof", "opinfo.md"),
    ("tests/opinfo/compare.py", "tests/opinfo/test_opinfo.py"),
    "make opinfo",
    tested=_BACKEND,
)

# The pinned releases are no input: tests compare them with those of the result.
LIBRARIES = Result(
    Path("docs", "proof", "libraries.json"),
    (
        *(
            f"tests/libraries/{name}_programs.py"
            for name in ("accelerate", "adapter", "lightning", "other", "transformers", "vision", "vllm")
        ),
        *(f"tests/libraries/{name}.py" for name in ("catalog", "networks", "programs")),
        "torch_openreg/integrations/*.py",
        "torch_openreg/integrations/_vllm/*.py",
    ),
    "make libraries",
)

# Not every source: a changed function or header hardly changes the times, and nobody renews a table that every change
# makes stale. The times depend on which sources are compiled together and how, and on what is generated. The build with
# counters is another one.
BUILD_TIME = Result(
    Path("benchmarks", "results", "build_time.md"),
    (
        "CMakeLists.txt",
        "cmake/[!C]*",  # all but Coverage.cmake
        "csrc/**/CMakeLists.txt",
        "csrc/kernels/library/generate_structured.py",
        "csrc/kernels/library/structured.toml",
        "benchmarks/build_time.py",
    ),
    "python benchmarks/build_time.py",
)

# The backend is no input: `make instructions` compares its counts. Another list of calls or of parts needs new counts.
INSTRUCTIONS = Result(
    Path("benchmarks", "results", "instructions.json"),
    ("benchmarks/_instructions.cpp", "tools/instructions/parts.py"),
    "make instructions ARGS=--accept",
)

ALL = (MODELS, OPINFO, LIBRARIES, BUILD_TIME, INSTRUCTIONS)
