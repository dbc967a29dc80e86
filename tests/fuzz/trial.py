"""Runs one program in a child of its own, and reports a wrong value, an error, or a crash of the process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.fuzz.execution import Execution, Finding
from tests.fuzz.isolation import LIMIT, Ending, Say, in_child
from tests.fuzz.program import DATABASE, PREAMBLE, Program


@dataclass(frozen=True)
class Trial:
    """The outcome of a program."""

    finding: Finding | None
    lines: tuple[str, ...] = ()
    """What ran on the device."""

    def listing(self) -> str:
        """The program, ready to be pasted."""
        preamble = PREAMBLE + (DATABASE if any("entries[" in line for line in self.lines) else "")
        return preamble + "\n".join(self.lines)


def trial(program: Program, mode: str, entries: Mapping[str, Any], limit: float = LIMIT) -> Trial:
    """Runs a program alone in a launch mode."""

    def work(say: Say) -> None:
        finding = Execution(
            program, entries, lambda side, index: say("at", [side, index]), lambda line: say("line", line)
        ).run()
        say("finding", [finding.kind, finding.detail, finding.index] if finding else None)

    def hear(subject: str, message: Any) -> None:
        if subject == "line":
            lines.append(message)

    lines: list[str] = []
    ending = in_child(work, mode, hear, limit)
    found = ending.messages.get("finding")
    return Trial(death(ending, ending.messages.get("at")) or (Finding(*found) if found else None), tuple(lines))


def death(ending: Ending, at: list[Any] | None) -> Finding | None:
    """The finding that a child has died, on the CPU's side or the device's. A death on the CPU's is PyTorch's own."""
    if ending.cause is None:
        return None
    side, index = at or ["cpu", 0]
    said = ending.stderr.strip().splitlines()[-1:] or [""]
    where = "the CPU" if side == "cpu" else "the device"
    return Finding(f"{where}: the process {ending.cause}", said[0][:300], index)
