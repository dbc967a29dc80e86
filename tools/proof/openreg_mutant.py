"""What the mutants of Python sources ask at run time: which of them is the chosen one. See openreg_mutant.h.

A ``.pth`` file of the sandbox imports this module into every process, before any source with mutants.
"""

from __future__ import annotations

import builtins
import mmap
import os
import struct
import time

CHOSEN = "OPENREG_MUTANT"
REACHED = "OPENREG_MUTANT_REACHED"
WORD = 8

_chosen = int(os.environ.get(CHOSEN, "0"))
_map: mmap.mmap | None = None


def openreg_mutant(number: int) -> bool:
    """Whether a mutant is the chosen one."""
    if _map is not None:
        current, count = struct.unpack_from("QQ", _map)
        _map[WORD * (2 + count) + number * count + current] = 1
    return number == _chosen


def example(number: int) -> None:
    """Says in the process of a page that its example ``number`` begins."""
    if _map is not None:
        struct.pack_into("Q", _map, 0, number)
        struct.pack_into("d", _map, WORD * (2 + number), time.monotonic())


if os.environ.get(REACHED):
    with open(os.environ[REACHED], "r+b") as _file:
        _map = mmap.mmap(_file.fileno(), 0)
builtins.openreg_mutant = openreg_mutant  # type: ignore[attr-defined]
