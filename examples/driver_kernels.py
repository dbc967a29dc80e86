"""Kernels that are Python functions, and every driver function for streams, events or kernels.

Run as a script, with OPENREG_LAUNCH set to auto, async or inline, it prints where kernels run and when they fail.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driver_memory import call, driver, error_code, new, sleep, workers  # type: ignore[import-not-found]
from driver_streams import DESTROY, RUN, HostKernel  # type: ignore[import-not-found]

SMALL, LARGE = 1 << 20, (1 << 20) + 1  # the largest work that counts as small, and the smallest that does not
KERNEL_FAULT, HANG_FAULT, LOST_FAULT = 1, 2, 3
SLEEP = 0x10000003  # the handle of the kernel "sleep"

# LITERALINCLUDE START: driver-kernels-launch
destroyed: list[str] = []
kept: list[object] = []  # callbacks and names that the driver may still use and Python would free


def kernel(name: str, work: Callable[[], object], size: int = LARGE) -> HostKernel:
    """A kernel that does some work. If the work returns text, the kernel fails with it; a number is its status."""

    def run(closure: int, message: int, message_bytes: int) -> int:
        result = work()
        if isinstance(result, str):
            text = result.encode()[: message_bytes - 1] + b"\0"
            ctypes.memmove(message, text, len(text))
            return 1
        return result if type(result) is int else 0

    callbacks = RUN(run), DESTROY(lambda closure: destroyed.append(name))
    kept.append(launched := HostKernel(name.encode(), *callbacks, None, size))
    return launched


def launch(name: str, work: Callable[[], object], stream: int | None = None, size: int = LARGE) -> None:
    """Launches such a kernel. By default it counts as large, so it is queued unless the mode is inline."""
    call("orLaunchHostKernel", ctypes.byref(kernel(name, work, size)), stream)


def hold(stream: int | None = None) -> threading.Event:
    """Keeps a stream busy until the event that it returns is set."""
    gate, running = threading.Event(), threading.Event()
    launch("begin", running.set, stream)
    launch("hold", lambda: gate.wait(20), stream)
    running.wait(20)
    return gate


# LITERALINCLUDE END: driver-kernels-launch


# LITERALINCLUDE START: driver-kernels-calls
def calls(stream: int | None, event: int | None) -> dict[str, tuple[Any, ...]]:
    """All functions for streams, events and kernels that need a device, each with its arguments."""
    answer, time_asleep = ctypes.byref(ctypes.c_double()), ctypes.byref(ctypes.c_uint64(0))
    return {
        "orStreamGetDevice": (stream, answer),
        "orStreamGetPriority": (stream, answer),
        "orStreamCreate": (answer,),
        "orStreamCreateWithPriority": (answer, 0),
        "orEventCreate": (answer,),
        "orEventCreateWithFlags": (answer, 0),
        "orEventRecord": (event, stream),
        "orStreamWaitEvent": (stream, event),
        "orLaunchKernel": (SLEEP, time_asleep, 8, stream),
        "orLaunchHostKernel": (ctypes.byref(kernel("launched", lambda: 0)), stream),
        "orEventDestroy": (event,),
        "orStreamDestroy": (stream,),
        "orStreamQuery": (stream,),
        "orStreamSynchronize": (stream,),
        "orEventQuery": (event,),
        "orEventSynchronize": (event,),
        "orEventElapsedTime": (answer, event, event),
    }


def error_name(function: str, *arguments: Any) -> str:
    """Makes a call and returns the name of its error."""
    name: bytes = driver.orGetErrorName(error_code(function, *arguments))
    return name.decode()


def answers(stream: int | None, event: int | None) -> dict[str, list[str]]:
    """Makes all calls, and returns the functions by the error that they gave."""
    found: dict[str, list[str]] = {}
    for function, arguments in calls(stream, event).items():
        found.setdefault(error_name(function, *arguments), []).append(function)
    return found


# LITERALINCLUDE END: driver-kernels-calls


def begin(function: str, *arguments: Any) -> Callable[[], None]:
    """Makes a call on another thread, and returns once that thread blocks inside it.

    Returns a function that waits for the end of the call and prints its error.
    """
    lines: list[str] = []

    def work() -> None:
        lines.append(error_name(function, *arguments))
        if lines != ["orSuccess"]:
            lines.append(f"   {driver.orGetErrorDetail().decode()}")

    def finish() -> None:
        thread.join()
        print("\n".join(lines))

    thread = threading.Thread(target=work)
    thread.start()
    file = Path(f"/proc/self/task/{thread.native_id}/stat")
    asleep = 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread may end before its file is read
        while asleep < 20 and thread.is_alive():
            time.sleep(0.01)
            asleep = asleep + 1 if ") S " in file.read_text() else 0
    return finish


# LITERALINCLUDE START: driver-kernels-modes
def where(size: int) -> str:
    """Which thread runs a kernel of this size on an idle stream."""
    ran: list[int] = []
    launch("where", lambda: ran.append(threading.get_native_id()), size=size)
    call("orDeviceSynchronize")
    return "caller" if ran == [threading.get_native_id()] else "stream"


def main() -> None:
    """Launches kernels of three sizes, some that fail, and one that hangs until another thread resets the device."""
    print(where(0), where(SMALL), where(LARGE))
    before = workers()
    sleep(1, new("orStreamCreate"))
    call("orDeviceSynchronize")
    print("sleep:", "caller" if workers() == before else "stream")
    for size in (0, LARGE):
        call("orInjectFault", KERNEL_FAULT, 0, 1)
        print("launch:", error_name("orLaunchHostKernel", ctypes.byref(kernel("broken", lambda: 0, size)), None))
        print("launch:", error_name("orLaunchKernel", SLEEP, ctypes.byref(ctypes.c_uint64(0)), 8, None))
        print("synchronize:", error_name("orStreamSynchronize", None))
        call("orDeviceReset")
    call("orInjectFault", HANG_FAULT, 0, 1)
    resetting = threading.Event()

    def reset_device() -> None:
        resetting.set()
        call("orDeviceReset")

    reset = threading.Timer(0.5, reset_device)
    reset.start()
    launch("hangs", lambda: 0, size=0)
    print("back", "after" if resetting.is_set() else "before", "the reset")
    reset.join()
    print(destroyed)


# LITERALINCLUDE END: driver-kernels-modes


if __name__ == "__main__":
    main()
