"""The parts of torch_openreg/_exit.py, one by one: what each checks before it lets the process end."""

from __future__ import annotations

import ctypes
import threading
import time

import torch

from torch_openreg import _exit

passed: list[int] = []  # the devices whose engine thread was waited for
SECOND = 1_000_000_000


# LITERALINCLUDE START: errors-exit-parts
def settled() -> list[int]:
    """The devices whose engine thread the process would wait for if it ended now."""
    passed.clear()
    _exit._settle()
    return passed.copy()


def at_rest(busy_for: int) -> tuple[bool, bool]:
    """Whether device 0 became idle after so many nanoseconds of work, and whether in less than a second."""
    torch.openreg._sleep(busy_for)
    start = time.monotonic()
    return _exit._comes_to_rest(0), time.monotonic() - start < 1


def main() -> None:
    """Checks before the device is used, before and after a backward, beside work and a thread, and after a failure."""
    print("unused:", settled(), torch.openreg.is_initialized())
    x = torch.ones(2, device="openreg", requires_grad=True)
    print("no backward yet:", settled(), _exit._engine_has_threads())
    (x * 2).sum().backward()
    print("after a backward:", settled(), _exit._engine_has_threads())
    print("idle, working, busy:", at_rest(0), at_rest(SECOND // 4), at_rest(3 * SECOND))
    print("no other thread:", settled())
    other, end = threading.Thread(target=lambda: end.wait()), threading.Event()
    other.start()
    print("another thread, device 0 is busy:", settled())
    torch.accelerator.synchronize("openreg:0")
    print("another thread, nothing is busy:", settled())
    ctypes.CDLL("libopenreg.so").orInjectFault(1, 0, 1)  # the next kernel of device 0 fails
    x.detach().abs()
    try:
        torch.accelerator.synchronize("openreg:0")
    except torch.AcceleratorError:
        print("another thread, device 0 has failed:", settled())
    end.set()


# LITERALINCLUDE END: errors-exit-parts

if __name__ == "__main__":
    waits = _exit._pass_through_engine
    _exit._pass_through_engine = lambda index: passed.append(index) or waits(index)  # type: ignore[func-returns-value]
    main()
