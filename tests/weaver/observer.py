"""An observer of a measurement: what fell back, and what is there now, by the names in a file."""

from __future__ import annotations

from pathlib import Path

CHANGED = "the project has {} now, which was not there when it was measured"
SURROUND: dict[str, object] = {}


def fell_back() -> list[str]:
    return []


def present(root: Path) -> list[str]:
    file = root / "present.txt"
    return file.read_text(encoding="utf-8").split() if file.is_file() else []
