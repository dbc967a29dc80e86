"""A kernel that calls the driver, which is not allowed; run it with OPENREG_LAUNCH=inline."""

from __future__ import annotations

import ctypes

from driver_memory import attributes, call, new  # type: ignore[import-not-found]  # beside this script

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


# LITERALINCLUDE START: driver-inside-kernel
def main() -> None:
    """Launches a kernel that queries a pointer, allocates memory, and then fails."""
    pointer = new("orMalloc", 8)

    def run(closure: int, message: int, message_bytes: int) -> int:
        print("kernel:", attributes(pointer), new("orGetDeviceCount", kind=ctypes.c_int))
        call("orMalloc", ctypes.byref(ctypes.c_void_p()), 8)
        return 1

    call("orLaunchHostKernel", ctypes.byref(HostKernel(b"curious", RUN(run))), None)


# LITERALINCLUDE END: driver-inside-kernel


if __name__ == "__main__":
    main()
