"""An observer of a measurement: nothing fell back, and a file names what is present now."""

from __future__ import annotations

from pathlib import Path

CHANGED = "the project has {} now, which was not there when it was measured"
SURROUND: dict[str, object] = {}


def fell_back() -> list[str]:
    return []


def present(root: Path) -> list[str]:
    file = root / "present.txt"
    return file.read_text(encoding="utf-8").split() if file.is_file() else []
