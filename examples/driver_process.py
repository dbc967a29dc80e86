"""What happens to the driver when its process forks, and when it ends with work queued."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

from driver_memory import call, driver, error_code, new, read, sleep, write  # type: ignore[import-not-found]

FORKED = 13  # orErrorForked


# LITERALINCLUDE START: driver-process-fork
def in_child(work: Callable[[], None]) -> None:
    """Does work in a forked child, and waits for it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        work()
        sys.exit()
    _, status = os.waitpid(child, 0)
    assert status == 0


def use() -> None:
    """Sends a word to the device and back, by way of a stream's thread."""
    pointer = new("orMalloc", 5)
    if pointer is not None:
        write(pointer, b"hello")
        sleep(1)
        call("orDeviceSynchronize")
        print(read(pointer, 5))


def fork_before() -> None:
    """Forks before the driver is used."""
    in_child(use)
    use()


def fork_after() -> None:
    """Forks while work is queued."""
    pointer = new("orMalloc", 5)
    sleep(50)
    call("orMemsetAsync", pointer, ord("x"), 5, None)

    def child() -> None:
        call("orFree", pointer)
        host = ctypes.create_string_buffer(64)
        bytes_at = (ctypes.byref(host), pointer, 5)
        for function, arguments in {
            "orGetDeviceCount": (host,),
            "orGetDeviceProperties": (ctypes.create_string_buffer(256), 0),
            "orSetDevice": (0,),
            "orDeviceSynchronize": (),
            "orDeviceReset": (),
            "orMalloc": (host, 5),
            "orMallocHost": (host, 5),
            "orFreeHost": (None,),
            "orMemGetInfo": (host, host),
            "orPointerGetAttributes": (host, pointer),
            "orMemcpy": (*bytes_at, 4),
            "orMemcpyAsync": (*bytes_at, 4, None),
            "orMemset": (pointer, 0, 5),
            "orMemsetAsync": (pointer, 0, 5, None),
        }.items():
            found = error_code(function, *arguments), driver.orGetLastError()
            assert found == (FORKED, FORKED), function
        print("version:", new("orDriverGetVersion", kind=ctypes.c_int), "last error:", driver.orGetLastError())
        in_child(use)

    in_child(child)
    print("parent:", read(pointer, 5))


# LITERALINCLUDE END: driver-process-fork


# LITERALINCLUDE START: driver-process-end
def end() -> None:
    """Ends with hours of work queued on three streams of two devices."""
    for device in range(2):
        call("orSetDevice", device)
        stream = new("orStreamCreate")
        for _ in range(100):
            sleep(3_600_000, stream)
    event = new("orEventCreate")
    call("orEventRecord", event, stream)
    call("orSetDevice", 0)
    call("orStreamWaitEvent", None, event)
    call("orMemsetAsync", new("orMalloc", 8), 7, 8, None)
    print("the last line")


# LITERALINCLUDE END: driver-process-end


if __name__ == "__main__":
    {"fork-before": fork_before, "fork-after": fork_after, "end": end}[sys.argv[1]]()
