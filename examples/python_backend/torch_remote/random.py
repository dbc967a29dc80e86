"""Random numbers: the host keeps a seed and how often it was drawn from, and sends both with an operator that draws."""

from __future__ import annotations

import os
import threading

import torch

from .base import base

_lock = threading.RLock()  # as that of memory.py: for signal handlers, and held during a fork
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


# LITERALINCLUDE START: remote-draw
def draw(given: torch.Generator | None, index: int) -> tuple[int, int]:
    """Takes the next step of a generator, by default the device's. Throws: ``RuntimeError``."""
    generator = base().default_generator(index) if given is None else given
    if generator.device != torch.device("remote", index):
        raise RuntimeError(
            f"Expected a generator of remote:{index} and got one of {generator.device}: "
            f"torch.Generator('remote:{index}') makes one"
        )
    with _lock:
        seed, offset = generator.initial_seed(), generator.get_offset()
        generator.set_offset(offset + 1)
    return seed, offset


# LITERALINCLUDE END: remote-draw
