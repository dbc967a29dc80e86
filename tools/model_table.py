"""The table of trained models, which benchmarks/models.py writes: what it is made from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import freshness

RESULT = Path("benchmarks", "results", "models.md")
MEASURED = (
    *(f"csrc/**/{name}" for name in ("*.cpp", "*.h", "*.py", "*.toml", "CMakeLists.txt")),
    "torch_openreg/**/*.py",
    *(f"tests/models/{name}.py" for name in ("networks", "language", "training")),
    *(f"benchmarks/{name}.py" for name in ("models", "_turns")),
)


def digest(root: Path = Path()) -> str:
    """Changes with the backend, the models and how they are measured, and with PyTorch."""
    return freshness.digest(MEASURED, root)


def stale() -> Iterator[str]:
    """Says what is wrong with the result, if anything."""
    yield from freshness.stale(RESULT, digest(), "make models")
