"""Keeps a stream busy through the driver that the backend has loaded, for a time or until the test releases it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from tests import offers

_driver = offers.library()


def sleep_on(stream: torch.Stream, milliseconds: float) -> None:
    """Queues a kernel that sleeps. Skips the test where the driver would wait for it instead."""
    offers.require("queue")
    kernel, nanoseconds = ctypes.c_void_p(), ctypes.c_uint64(int(milliseconds * 1e6))
    assert _driver.orGetKernel(ctypes.byref(kernel), b"sleep") == 0
    handle = ctypes.c_void_p(stream.native_handle)
    assert _driver.orLaunchKernel(kernel, ctypes.byref(nanoseconds), ctypes.c_size_t(8), handle) == 0


def assert_queued(call: Callable[[], object]) -> None:
    """Calls once, to learn what the library refuses, and once more on a busy stream, where it must not wait."""
    call()
    torch.openreg.synchronize()
    with torch.Stream("openreg") as stream:
        sleep_on(stream, 100)
        call()
        assert not stream.query()
        stream.synchronize()


_HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_kept: list[object] = []  # A callback must outlive its call, and nothing reports when that has returned.


@contextmanager
def held(stream: torch.Stream) -> Iterator[threading.Event]:
    """Keeps a stream busy, but not its device, until the event is set, or the block ends.

    A kernel that waits would keep the device's processors, perhaps its only one, from all other streams.
    Skips the test where the driver calls no host functions.
    """
    offers.require("host functions")
    gate, ended = threading.Event(), threading.Event()

    def wait(user: int) -> None:
        if gate.wait(60):
            ended.set()

    _kept.append(_HostFunction(wait))
    assert _driver.orLaunchHostFunction(ctypes.c_void_p(stream.native_handle), _kept[-1], None) == 0
    try:
        yield gate
    finally:
        gate.set()
        assert ended.wait(60), "the driver has not called the function, or that has waited for a minute"


def time_at_driver(event: torch.Event) -> int:
    """The driver's error code for the elapsed time from the event to itself."""
    milliseconds, handle = ctypes.c_double(), ctypes.c_void_p(event.event_id)
    error: int = _driver.orEventElapsedTime(ctypes.byref(milliseconds), handle, handle)
    return error


def new_driver_stream(device: int) -> int:
    """Creates a stream with the driver, unknown to the backend."""
    stream = ctypes.c_void_p()
    with torch.openreg.device(device):
        assert _driver.orStreamCreate(ctypes.byref(stream)) == 0
    assert stream.value is not None
    return stream.value


def destroy_driver_stream(handle: int) -> None:
    """Destroys such a stream."""
    assert _driver.orStreamDestroy(ctypes.c_void_p(handle)) == 0
