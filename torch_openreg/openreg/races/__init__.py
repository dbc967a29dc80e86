"""Data races between streams: found while a program runs, by what it has ordered and not by chance.

A detector sees each operator with its arguments, and each event and wait. It reports two uses of the same bytes, at
least one of them a write, that nothing orders: also where they came in the right order this time.
"""

from __future__ import annotations

import os

from torch_openreg.openreg.races.detector import RaceDetector, RaceError

__all__ = ["RaceDetector", "RaceError", "detect_races", "wanted_by_environment"]


# LITERALINCLUDE START: races-interface
def detect_races() -> RaceDetector:
    """Raises `RaceError` where two streams use the same memory without an order, for the operators of a `with` block.

    It knows what happens in the block alone, of the operators that this thread calls and of their derivatives. To be
    used from the start of a program, set OPENREG_RACES=1 instead. An operator takes tens of microseconds longer.
    """
    return RaceDetector()


def wanted_by_environment() -> bool:
    """Whether OPENREG_RACES is 1: then the package detects races from its import on, on the importing thread.

    Raises:
        ImportError: for another value than 0, the default, and 1.
    """
    choice = os.environ.get("OPENREG_RACES", "0")
    if choice not in ("0", "1"):
        raise ImportError(f"torch_openreg: OPENREG_RACES is '0' or '1', got {choice!r}")
    return choice == "1"


# LITERALINCLUDE END: races-interface
