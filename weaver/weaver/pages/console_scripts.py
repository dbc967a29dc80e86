"""Shell commands on pages: a ``console`` block may show those that CI runs, line by line, and no output."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def scripts(root: Path) -> list[Path]:
    """Return the scripts that CI runs: ``.ci/run``, and what it, make or a build test calls of tests/build."""
    entry = root / ".ci" / "run"
    callers = [entry, root / "Makefile", *sorted((root / "tests" / "build").glob("*.py"))]
    called = "\n".join(file.read_text(encoding="utf-8") for file in callers if file.is_file())
    others = [script for script in sorted((root / "tests" / "build").glob("*.sh")) if script.name in called]
    return [file for file in [entry, *others] if file.is_file()]


def check(files: list[Path], block: str) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with a ``console`` block, each with the offset of its line; ``files`` are the scripts."""
    known = {line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines()}
    for offset, line in enumerate(block.splitlines()):
        if line.startswith("$ "):
            if line[2:].strip() not in known:
                yield offset, f"`{line[2:].strip()}` is no line of .ci/run or of a script in tests/build that CI runs"
        elif line.strip():
            yield offset, f"output `{line.strip()}` in a console block is not compared: use {{console-run}}"
