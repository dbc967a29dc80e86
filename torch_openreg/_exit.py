"""The end of the process: lets the threads of PyTorch's autograd engine come to rest before Python goes."""

from __future__ import annotations

import atexit
import time
from pathlib import Path

LONGEST_WAIT = 1.0  # seconds


def settle_autograd_at_exit() -> None:
    """Waits, when the process ends, until no thread of the autograd engine is at work.

    On an accelerator, backward runs on a thread of the engine, and `backward()` returns before that thread has dropped
    the last of the graph. If the graph holds a Python object and the interpreter is gone by then, CPython (before 3.14)
    ends the thread inside a C++ destructor, and the process aborts with "terminate called without an active exception".
    """
    atexit.register(_settle)


def _settle() -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    quiet_looks = 0
    # Twice in a row: a thread that waits for the GIL sleeps too, and gets it while this one sleeps between the looks.
    while _engine_threads() and quiet_looks < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
        quiet_looks = 0 if _is_engine_at_work() else quiet_looks + 1


def _engine_threads() -> list[Path]:
    return [task for task in Path("/proc/self/task").iterdir() if _read(task / "comm").startswith("pt_autograd")]


def _is_engine_at_work() -> bool:
    # The state is the first field after the name, which stands in parentheses: "R" runs, "S" sleeps.
    return any(_read(task / "stat").rpartition(")")[2].split()[:1] == ["R"] for task in _engine_threads())


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # The thread has ended.
        return ""
