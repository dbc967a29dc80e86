"""Shell commands on pages: a ``console`` block may show only lines that CI runs, without output."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from weaver.configuration import Configuration


def scripts(configuration: Configuration) -> list[Path]:
    """Return the scripts that CI runs: those that ``[console]`` names, and those that a caller names."""
    console = configuration.console

    def files(patterns: tuple[str, ...]) -> list[Path]:
        return [file for pattern in patterns for file in sorted(configuration.root.glob(pattern)) if file.is_file()]

    callers = "\n".join(file.read_text(encoding="utf-8") for file in files(console.callers))
    return [*files(console.scripts), *(script for script in files(console.called) if script.name in callers)]


def check(configuration: Configuration, files: list[Path], block: str) -> Iterator[tuple[int, str]]:
    """Yield the faults of a ``console`` block, each with the offset of its line; ``files`` are the scripts."""
    console = configuration.console
    where = " or of ".join([*console.scripts, *(f"one of {pattern} that CI runs" for pattern in console.called)])
    known = {line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines()}
    for offset, line in enumerate(block.splitlines()):
        if line.startswith("$ "):
            if line[2:].strip() not in known:
                yield offset, f"`{line[2:].strip()}` is no line of {where or 'a script that CI runs'}"
        elif line.strip():
            yield offset, f"output `{line.strip()}` in a console block is not compared: use {{console-run}}"
