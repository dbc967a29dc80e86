"""Makes a stream busy, through the driver that the backend has loaded: for a time, or until the test says otherwise."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import torch_openreg._C

_driver = ctypes.CDLL(str(Path(torch_openreg._C.__file__).parent / "lib" / "libopenreg.so"))


def sleep_on(stream: torch.Stream, milliseconds: float) -> None:
    """Queues a kernel that sleeps."""
    kernel, nanoseconds = ctypes.c_void_p(), ctypes.c_uint64(int(milliseconds * 1e6))
    assert _driver.orGetKernel(ctypes.byref(kernel), b"sleep") == 0
    handle = ctypes.c_void_p(stream.native_handle)
    assert _driver.orLaunchKernel(kernel, ctypes.byref(nanoseconds), ctypes.c_size_t(8), handle) == 0


_Run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_Destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _HostKernel(ctypes.Structure):
    """orHostKernel of openreg_host_kernels.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("run", _Run),
        ("destroy", _Destroy),
        ("closure", ctypes.c_void_p),
        ("work_bytes", ctypes.c_size_t),
        ("keep", ctypes.c_void_p),
    ]


@contextmanager
def held(stream: torch.Stream) -> Iterator[threading.Event]:
    """Keeps a stream busy with a Python function until the event is set, or the block ends."""
    gate, destroyed = threading.Event(), threading.Event()

    def run(closure: int, message: int, message_bytes: int) -> int:
        return 0 if gate.wait(60) else 1

    callbacks = _Run(run), _Destroy(lambda closure: destroyed.set())
    kernel = _HostKernel(b"hold", *callbacks, None, 1 << 30)
    assert _driver.orLaunchHostKernel(ctypes.byref(kernel), ctypes.c_void_p(stream.native_handle)) == 0
    try:
        yield gate
    finally:
        gate.set()
        assert destroyed.wait(60)


def time_at_driver(event: torch.Event) -> int:
    """The driver's error when it is asked for the time from the event to itself."""
    milliseconds, handle = ctypes.c_double(), ctypes.c_void_p(event.event_id)
    error: int = _driver.orEventElapsedTime(ctypes.byref(milliseconds), handle, handle)
    return error


def new_driver_stream(device: int) -> int:
    """A stream that the backend does not know of, made with the driver."""
    stream = ctypes.c_void_p()
    with torch.openreg.device(device):
        assert _driver.orStreamCreate(ctypes.byref(stream)) == 0
    assert stream.value is not None
    return stream.value


def destroy_driver_stream(handle: int) -> None:
    """Ends such a stream."""
    assert _driver.orStreamDestroy(ctypes.c_void_p(handle)) == 0
