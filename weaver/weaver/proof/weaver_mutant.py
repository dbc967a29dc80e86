"""Tells the mutants of Python sources at run time which of them is the chosen one. See weaver_mutant.h.

A ``.pth`` file of the sandbox imports this module into every process, before any source with mutants.
"""

from __future__ import annotations

import builtins
import functools
import mmap
import os
import struct
import time

CHOSEN = "WEAVER_MUTANT"
REACHED = "WEAVER_MUTANT_REACHED"
WORD = 8


@functools.cache
def _choice() -> tuple[int, mmap.mmap | None]:
    """The number of the chosen mutant, and the file; read late, since a forked process receives them after the fork."""
    chosen, file = int(os.environ.get(CHOSEN, "0")), os.environ.get(REACHED)
    if not file:
        return chosen, None
    with open(file, "r+b") as opened:
        return chosen, mmap.mmap(opened.fileno(), 0)


def weaver_mutant(number: int) -> bool:
    """Returns whether a mutant is the chosen one."""
    chosen, reached = _choice()
    if reached is not None:
        current, count = struct.unpack_from("QQ", reached)
        reached[WORD * (2 + count) + number * count + current] = 1
    return number == chosen


def example(number: int) -> None:
    """Records in the process of a page that its example ``number`` begins."""
    _, reached = _choice()
    if reached is not None:
        struct.pack_into("Q", reached, 0, number)
        struct.pack_into("d", reached, WORD * (2 + number), time.monotonic())


# torch.compile takes the answer for a constant: it asks once, where it traces code with mutants. It cannot trace a
# builtin function, except for one whose name begins with an underscore, which it takes for code of the program.
weaver_mutant._dynamo_marked_constant = True  # type: ignore[attr-defined]
builtins._weaver_mutant = weaver_mutant  # type: ignore[attr-defined]
