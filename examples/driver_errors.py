"""The exceptions that driver errors become."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class HostKernel(ctypes.Structure):
    """orHostKernel of openreg_host_kernels.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("run", RUN),
        ("destroy", ctypes.c_void_p),
        ("closure", ctypes.c_void_p),
        ("work_bytes", ctypes.c_size_t),
        ("keep", ctypes.c_void_p),
    ]


def attempt(what: str, call: Callable[[], Any]) -> None:
    """Makes a call and prints how it ends."""
    try:
        call()
    except RuntimeError as error:
        print(f"{what}: {type(error).__name__}\n   {error}")
    else:
        print(f"{what}: no error")


# LITERALINCLUDE START: driver-exceptions-raised
def main() -> None:
    """Makes the driver return an error of each kind."""
    attempt("more memory than there is", lambda: torch.empty(1 << 50, dtype=torch.uint8, pin_memory=True))
    attempt("a kernel that waits for its device", launch_a_kernel_that_waits)
    attempt("afterwards", torch.ones(2, device="openreg").abs)


def launch_a_kernel_that_waits() -> None:
    """Launches a kernel that waits for its device, which it must not do: it would wait for itself."""
    driver = ctypes.CDLL("libopenreg.so")  # the one that the backend has loaded

    def run(closure: int, message: int, message_bytes: int) -> int:
        attempt("inside it", lambda: torch.accelerator.synchronize("openreg"))
        return 0

    callback = RUN(run)
    stream = ctypes.c_void_p()
    found = driver.orDeviceGetDefaultStream(ctypes.byref(stream), 0)
    kernel = HostKernel(b"wait", callback, None, None, 0)
    launched = driver.orLaunchHostKernel(ctypes.byref(kernel), stream)
    assert (found, launched) == (0, 0)
    torch.accelerator.synchronize("openreg")


# LITERALINCLUDE END: driver-exceptions-raised


if __name__ == "__main__":
    main()
