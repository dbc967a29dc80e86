"""The table of build times, which benchmarks/build_time.py writes: what decides over them.

Not each source: a changed function leaves the times as they are, and nobody renews a table that every change makes
stale. What moves them is which sources are compiled together and how, what they include, and what is generated.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import freshness

RESULT = Path("benchmarks", "results", "build_time.md")
MEASURED = (
    "CMakeLists.txt",
    "cmake/*",
    "csrc/**/CMakeLists.txt",
    "csrc/**/*.h",
    "csrc/aten/generate_structured.py",
    "csrc/aten/structured.toml",
    "benchmarks/build_time.py",
)


def digest(root: Path = Path()) -> str:
    """Changes with the lists of sources, the headers and what is generated, and with PyTorch."""
    return freshness.digest(MEASURED, root)


def stale() -> Iterator[str]:
    """Says what is wrong with the result, if anything."""
    yield from freshness.stale(RESULT, digest(), "python benchmarks/build_time.py")
