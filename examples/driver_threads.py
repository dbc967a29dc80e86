"""Concurrent driver calls from several threads; the argument names the case."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from driver_memory import attributes, call, names, new, room, sleep  # type: ignore[import-not-found]


def together(*works: Callable[[], None]) -> None:
    """Runs each function on a thread of its own, all at once."""
    gate = threading.Barrier(len(works))

    def enter(work: Callable[[], None]) -> None:
        gate.wait()
        work()

    threads = [threading.Thread(target=enter, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# LITERALINCLUDE START: driver-threads-frees
def free_twice(allocate: str, free: str) -> None:
    """Two threads free the same memory while the device is busy: both wait, and one comes too late."""
    pointer = new(allocate, 1000)
    names[pointer] = "PINNED"
    sleep(200)
    together(partial(call, free, pointer), partial(call, free, pointer))


def crowd() -> None:
    """Four threads allocate, query, fill and free concurrently; nothing leaks, and nothing is mixed up."""

    def work() -> None:
        for number in range(1000):
            device, host = new("orMalloc", 512 + number), new("orMallocHost", 512 + number)
            assert attributes(device + 100) == ("device", 0, 100, 512 + number)
            assert attributes(host + 100) == ("host", -1, 100, 512 + number)
            call("orMemset", device, number, 512 + number)
            call("orFree", device)
            call("orFreeHost", host)

    together(work, work, work, work)
    print("all free:", room()[0] == room()[1])


# LITERALINCLUDE END: driver-threads-frees


# LITERALINCLUDE START: driver-threads-reset
def reset() -> None:
    """One thread waits for the device, another resets it."""

    def reset_soon() -> None:
        time.sleep(0.1)
        call("orDeviceReset")

    sleep(100_000)
    together(lambda: call("orDeviceSynchronize"), reset_soon)
    call("orDeviceSynchronize")


# LITERALINCLUDE END: driver-threads-reset


if __name__ == "__main__":
    {
        "free-twice": partial(free_twice, "orMalloc", "orFree"),
        "free-pinned-twice": partial(free_twice, "orMallocHost", "orFreeHost"),
        "reset": reset,
        "crowd": crowd,
    }[sys.argv[1]]()
