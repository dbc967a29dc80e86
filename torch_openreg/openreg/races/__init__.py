"""Data races between streams, detected at run time from the program's synchronization, not from timing.

A detector sees each operator with its arguments, and each event and wait. It reports two unordered uses of the same
bytes, at least one of them a write, even if they happened in the right order in this run.
"""

from __future__ import annotations

import os

from torch_openreg.openreg.races.detector import RaceDetector, RaceError

__all__ = ["WANTED", "RaceDetector", "RaceError", "detect_races", "wanted_by_environment"]


# LITERALINCLUDE START: races-interface
def detect_races() -> RaceDetector:
    """Raises `RaceError` if two streams use the same memory without synchronization inside a `with` block.

    It sees only what happens in the block: the operators that this thread calls, and their derivatives. To check a
    whole program from its start, set OPENREG_RACES=1 instead. Each operator takes tens of microseconds longer.
    """
    return RaceDetector()


def wanted_by_environment() -> bool:
    """Whether OPENREG_RACES is 1, which makes the package detect races on the importing thread from its import on.

    Raises:
        ImportError: if the value is neither 0 (the default) nor 1.
    """
    choice = os.environ.get("OPENREG_RACES", "0")
    if choice not in ("0", "1"):
        raise ImportError(f"torch_openreg: OPENREG_RACES is '0' or '1', got {choice!r}")
    return choice == "1"


# Read when this file is imported, before the backend has its name: a wrong value must not leave a part of it behind.
WANTED = wanted_by_environment()
# LITERALINCLUDE END: races-interface
