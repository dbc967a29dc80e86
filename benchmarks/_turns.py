"""Timing in turns: what is compared runs alternately, so that all of it sees the same machine."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))

from driver import about_device, result

Call = Callable[[], object]
TURNS = 40
TURN_SECONDS = 0.002
WARM_UP = 3


def repetitions(call: Call) -> int:
    """How often the call fits into a turn. Not counted are calls that are slow once: they get memory, or load code."""
    for _ in range(WARM_UP):
        call()
    torch.accelerator.synchronize()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        torch.accelerator.synchronize()  # Includes the time of queued work.
        if time.perf_counter() - start > TURN_SECONDS or count > 1 << 16:
            return count
        count *= 2


def microseconds(calls: Sequence[Call], turns: int = TURNS) -> list[float]:
    """What one call costs, for each of the calls: the 20th percentile of its turns, the time with little disturbance.

    A turn makes a call as often as fits into about 2 ms, and ends with a synchronisation.
    """
    counts = [repetitions(call) for call in calls]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(turns):
        for call, count, seconds in zip(calls, counts, times, strict=True):
            torch.accelerator.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                call()
            torch.accelerator.synchronize()
            seconds.append((time.perf_counter() - start) / count)
    return [low(seconds) * 1e6 for seconds in times]


def low(seconds: Sequence[float]) -> float:
    """The 20th percentile."""
    return sorted(seconds)[len(seconds) // 5]


def write(script: str, tables: str) -> Path:
    """Writes the tables of a script to the results, with how and where they were made."""
    machine = f"{about_device()}; {platform.machine()}, {torch.__version__}, one thread, {date.today()}"
    file = result(Path(__file__).parent / "results" / f"{Path(script).stem}.md")
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"Made by `python benchmarks/{Path(script).name}` on {machine}.\n\n{tables}\n", encoding="utf-8")
    return file
