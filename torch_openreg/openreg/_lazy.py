"""Lazy initialisation: the driver starts with the first use of a device, not with the import.

A program that only imports torch therefore starts no driver, and may fork.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from torch_openreg import _C

_lock = threading.RLock()
_initialized = False
_queued: list[Callable[[], None]] = []


def _is_in_bad_fork() -> bool:
    """Whether this process was forked after its parent had started the driver.

    `torch.manual_seed` asks, and leaves the device alone if so.
    """
    return _C._is_in_bad_fork()


def is_initialized() -> bool:
    """Whether `torch.openreg` has started the driver in this process."""
    return _initialized and not _is_in_bad_fork()


def init() -> None:
    """Starts the driver. Needs no call: the first use of a device does it.

    Raises:
        RuntimeError: if the driver cannot start, with its reason; in a process forked after the start, with what to
            do instead.
    """
    _lazy_init()


def _lazy_init() -> None:
    """Starts the driver once, and then makes the calls that waited for it.

    PyTorch calls it by this name before it creates the first tensor on the device.
    """
    global _initialized
    if is_initialized():
        return
    if _is_in_bad_fork():
        raise RuntimeError(
            "openreg cannot be used in a process that was forked after openreg was initialized: its device threads "
            "do not exist here. Use multiprocessing with the 'spawn' start method, or first use openreg after the fork."
        )
    with _lock:
        if not _initialized:
            _C._init()
            _initialized = True
            for call in _queued:
                call()
            _queued.clear()


def _lazy_call(call: Callable[[], None]) -> None:
    """Makes the call now if the driver runs, else as soon as it has started."""
    with _lock:
        if _initialized:
            call()
        else:
            _queued.append(call)
