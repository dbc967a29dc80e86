"""Lazy initialization: the driver starts when a device is first used, not at import.

A program that only imports torch therefore starts no driver, and may fork.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable

from torch_openreg import _C

# LITERALINCLUDE START: lazy-state
_lock = threading.RLock()  # a signal handler may use the device while this thread holds it
_initialized = False
_queued: list[tuple[Callable[[], None], str, bool]] = []  # each call, the stack where it was made, whether it seeds
_starting = threading.local()  # set on the thread that makes the queued calls, which themselves use the device


def _is_in_bad_fork() -> bool:
    """Whether this process was forked after its parent had started the driver.

    `torch.manual_seed` checks this and does not touch the device if it is true.
    """
    return _C._is_in_bad_fork()


def is_initialized() -> bool:
    """Whether `torch.openreg` has started the driver in this process."""
    return _initialized and not _is_in_bad_fork()


# LITERALINCLUDE END: lazy-state


def init() -> None:
    """Starts the driver. Calling it is optional: the first use of a device does the same.

    Raises:
        RuntimeError: if the driver cannot start (the message gives the reason), or if the process was forked after the
            driver started (the message says what to do instead).
    """
    _lazy_init()


# LITERALINCLUDE START: lazy-init
def _refuse_bad_fork() -> None:
    if _is_in_bad_fork():
        raise RuntimeError(
            "Cannot re-initialize openreg in forked subprocess: its device threads do not exist here. To use openreg "
            "with multiprocessing, you must use the 'spawn' start method, or first use openreg after the fork."
        )


def _lazy_init() -> None:
    """Starts the driver once, then makes the queued calls.

    PyTorch's bindings call it by this name when a call that creates or moves a tensor names the device. `torch.ops` and
    TorchScript start the driver in C++ alone, and make no queued calls: call `torch.openreg.init()` first.
    """
    global _initialized
    if is_initialized() or hasattr(_starting, "here"):
        return
    _refuse_bad_fork()
    with _lock:
        if not _initialized:
            _C._init()
            _make_queued_calls()
            _initialized = True


# LITERALINCLUDE END: lazy-init


# LITERALINCLUDE START: lazy-queue
def _make_queued_calls() -> None:
    _starting.here = True
    try:
        while _queued:
            call, where, _ = _queued.pop(0)
            try:
                call()
            except Exception as error:
                error.add_note(f"The call waited for the first use of openreg. It was made here:\n{where}")
                raise
    finally:
        del _starting.here


def _lazy_call(call: Callable[[], None], *, seed: bool = False, seed_all: bool = False) -> None:
    """Makes the call now if the driver is running; otherwise queues it until the driver has started.

    PyTorch looks it up since 2.14, and says which calls set a seed. Queued calls are made in their order, so that the
    last seed counts. A seed for all devices replaces the seeds before it: a program that does not use the device may
    set one again and again.

    If a queued call fails, the first use of the device raises its error, with a note on where the call was made; the
    next use continues with the calls after it.

    Raises:
        RuntimeError: in a process forked after the driver started, where the call would wait forever.
    """
    if is_initialized() or hasattr(_starting, "here"):
        call()
        return
    _refuse_bad_fork()
    where = "".join(traceback.format_stack()[:-1])
    with _lock:
        if not _initialized:
            if seed_all:
                _queued[:] = [earlier for earlier in _queued if not earlier[2]]
            _queued.append((call, where, seed or seed_all))
            if _initialized:
                _make_queued_calls()  # NOT PROVEN: a signal handler has just started the driver
            return
    call()


# LITERALINCLUDE END: lazy-queue


# LITERALINCLUDE START: lazy-fork
# A fork waits for a start in progress on another thread; otherwise the child would inherit a lock that stays locked.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
# LITERALINCLUDE END: lazy-fork
