"""Which thread runs a kernel, and in what order they run; run it with OPENREG_LAUNCH set to auto, async and inline."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from itertools import pairwise

from driver_memory import call, error_code, new, sleep  # type: ignore[import-not-found]  # beside this script

RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
DESTROY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class HostKernel(ctypes.Structure):
    """orHostKernel of openreg_host_kernels.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("run", RUN),
        ("destroy", DESTROY),
        ("closure", ctypes.c_void_p),
        ("work_bytes", ctypes.c_size_t),
        ("keep", ctypes.c_void_p),
    ]


ran: list[str] = []
destroyed: list[str] = []
kept: list[object] = []  # callbacks and names that the driver may still use and Python would free


def launch(what: str, stream: int, work: Callable[[], object] = lambda: None, size: int = 0) -> None:
    """Launches a kernel that records when and on which thread it runs, and when it is destroyed."""
    caller = threading.get_native_id()

    def run(closure: int, message: int, message_bytes: int) -> int:
        work()
        ran.append(f"{what} on the {'caller' if threading.get_native_id() == caller else 'stream'}")
        return 0

    callbacks = RUN(run), DESTROY(lambda closure: destroyed.append(what))
    kept.append(kernel := HostKernel(what.encode(), *callbacks, None, size))
    call("orLaunchHostKernel", ctypes.byref(kernel), ctypes.c_void_p(stream))


# LITERALINCLUDE START: streams-in-order
def main() -> None:
    """Launches kernels on an idle stream, behind a sleeping kernel, and more than the ring has room for."""
    stream = new("orStreamCreate")
    launch("small", stream)
    launch("large", stream, size=1 << 30)
    call("orStreamSynchronize", stream)
    sleep(50, stream)
    launch("behind", stream)
    print("query:", {0: "done", 10: "not ready"}[error_code("orStreamQuery", stream)])
    pointer = new("orMalloc", 4)
    call("orMemcpyAsync", pointer, b"abc", 4, 1, ctypes.c_void_p(stream))  # pageable: read before the call returns
    call("orStreamSynchronize", stream)
    print(ran, destroyed)

    ran.clear()
    destroyed.clear()
    gate = threading.Event()
    threading.Thread(target=open_when_the_host_waits, args=(gate,)).start()
    launch("0", stream, lambda: gate.wait(60), size=1 << 30)
    for number in range(1, 3000):
        launch(f"{number}", stream)
    call("orStreamSynchronize", stream)
    numbers = [int(name.split()[0]) for name in ran]
    print(len(numbers), "in order:", all(after == before + 1 for before, after in pairwise(numbers)))
    print("destroyed once each, in order:", destroyed == [str(number) for number in range(3000)])
    call("orStreamDestroy", stream)
    launch("late", stream)
    print("destroyed all the same:", destroyed[-1])


# LITERALINCLUDE END: streams-in-order


def open_when_the_host_waits(gate: threading.Event) -> None:
    """Opens the gate when nothing has been launched for a while."""
    launched = -1
    while launched != len(kept):
        launched = len(kept)
        time.sleep(0.2)
    gate.set()


if __name__ == "__main__":
    main()
