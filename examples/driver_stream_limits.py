"""What the driver reports when the host or the device has no room for another stream; the argument names the case."""

from __future__ import annotations

import ctypes
import resource
import sys

from driver_kernels import destroyed, kernel  # type: ignore[import-not-found]  # beside this script
from driver_limits import limited  # type: ignore[import-not-found]
from driver_memory import call, new, sleep  # type: ignore[import-not-found]


# LITERALINCLUDE START: driver-stream-limits-cases
def threads() -> None:
    """No room for the stack of a stream's thread. The refused kernel is destroyed, and the stream can be used later."""
    first = new("orStreamCreate")
    sleep(1, first)
    call("orStreamDestroy", first)
    sleep(1)  # the default stream gets the stack of the thread that has ended
    again = new("orStreamCreate")
    refused, served = kernel("refused", lambda: 0), kernel("served", lambda: 0)
    with limited(resource.RLIMIT_AS, 1 << 20):
        call("orLaunchHostKernel", ctypes.byref(refused), again)
    print(destroyed)
    call("orLaunchHostKernel", ctypes.byref(served), again)
    call("orStreamSynchronize", again)
    print(destroyed)


def objects() -> None:
    """More streams and events than a device can have: at the limit, one must be destroyed to create the next."""
    for what in ("Stream", "Event"):
        handles = []
        while handle := new(f"or{what}Create"):
            handles.append(handle)
        print(len(set(handles)), "different ones, the first of them", *map(hex, handles[:3]))
        call(f"or{what}Destroy", handles[1000])
        print("in the place of", hex(handles[1000]), "comes", hex(new(f"or{what}Create")))
    call("orDeviceReset")
    print("after a reset:", hex(new("orStreamCreate")), hex(new("orEventCreate")))


# LITERALINCLUDE END: driver-stream-limits-cases


if __name__ == "__main__":
    {"threads": threads, "objects": objects}[sys.argv[1]]()
