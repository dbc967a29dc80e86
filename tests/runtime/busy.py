"""Makes a stream busy with the device's sleep kernel, through the driver that the backend has loaded."""

from __future__ import annotations

import ctypes
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
