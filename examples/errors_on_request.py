"""Errors on request: each part runs in a process of its own, because some errors are sticky.

python examples/errors_on_request.py kernel
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import multiprocessing
import multiprocessing.synchronize
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from driver_errors import RUN, HostKernel  # type: ignore[import-not-found]  # beside this script

driver = ctypes.CDLL("libopenreg.so")  # the one that the backend has loaded
ALLOCATION_FAULT, KERNEL_FAULT, HANG_FAULT, LOST_FAULT = range(4)  # orFault_t of openreg_faults.h


def inject(fault: int, count: int = 1) -> None:
    """Injects a fault into device 0."""
    error = driver.orInjectFault(fault, 0, count)
    assert error == 0


def attempt(what: str, call: Callable[[], Any]) -> None:
    """Makes a call and prints how it ends: its value, or the class, code and text of the error."""
    try:
        value = call()
    except Exception as error:
        code = getattr(error, "error_code", "")
        print(f"{what}: {type(error).__name__} {code}".rstrip() + f"\n   {str(error).splitlines()[0]}")
    else:
        print(f"{what}: {value if isinstance(value, (bool, int, list)) else 'no error'}")


# LITERALINCLUDE START: errors-found-late
def found_late() -> None:
    """A mistake that only the kernel detects: a bool has no negative, and this view requires one."""
    x = torch.arange(3.0, device="openreg")
    flags = torch._neg_view(torch.ones(2, dtype=torch.bool, device="openreg"))
    torch.openreg._sleep(20_000_000)
    attempt("the wrong call", flags.resolve_neg)
    attempt("a call that only queues", lambda: x.add_(1))
    while not torch.accelerator.current_stream().query():
        time.sleep(0.001)  # the kernel has run now, and nothing has waited for it
    attempt("to wait for the other device", lambda: torch.accelerator.synchronize("openreg:1"))
    attempt("the next that waits", x.tolist)
    attempt("and from then on", x.tolist)


# LITERALINCLUDE END: errors-found-late


# LITERALINCLUDE START: errors-kernel-fails
def kernel() -> None:
    """Makes a kernel fail: when that is reported, and what still works."""
    x = torch.ones(4, device="openreg")
    inject(KERNEL_FAULT)
    attempt("the kernel that fails", lambda: x.abs())
    attempt("the next", lambda: x.abs())
    attempt("a copy to the host", lambda: x.tolist())
    attempt("another kernel", lambda: x.abs())
    attempt("new memory", lambda: torch.empty(1 << 24, device="openreg"))
    attempt("a view", lambda: x[1:])
    attempt("its shape", lambda: x.numel())
    attempt("the other device", lambda: torch.ones(2, device="openreg:1").tolist())


# LITERALINCLUDE END: errors-kernel-fails


# LITERALINCLUDE START: errors-in-a-kernel
def look_up(index: int, size: int) -> None:
    """Launches a kernel that checks its index, as a kernel must if its index is in device memory."""

    def run(closure: int, message: int, message_bytes: int) -> int:
        text = f"index {index} is out of range for {size} elements".encode()[: message_bytes - 1] + b"\0"
        ctypes.memmove(message, text, len(text))
        return 0 if index < size else 1

    callback = RUN(run)
    kernel = HostKernel(b"look_up", callback, None, None, 0)
    attempt("launch", lambda: torch_check(driver.orLaunchHostKernel(ctypes.byref(kernel), None)))
    attempt("synchronize", lambda: torch.accelerator.synchronize("openreg"))


def in_kernel() -> None:
    """An index out of range, found on the host, and found by a kernel."""
    attempt("found on the host", lambda: torch.arange(4, device="openreg")[9])
    look_up(3, 4)
    look_up(9, 4)


# LITERALINCLUDE END: errors-in-a-kernel


def torch_check(error: int) -> None:
    """Raises what the backend raises for a sticky error."""
    if error:
        torch.accelerator.synchronize("openreg")


# LITERALINCLUDE START: errors-allocation-fails
def allocation() -> None:
    """The driver finds no memory, once or several times."""
    for count in (1, 2, 3):
        torch.accelerator.empty_cache()
        inject(ALLOCATION_FAULT, count)
        attempt(f"{count} in a row", lambda: torch.empty(1 << 20, device="openreg"))
        statistics = torch.accelerator.memory_stats(0)
        print("   asked again:", statistics["num_alloc_retries"], "given up:", statistics["num_ooms"])
    attempt("afterwards", lambda: torch.ones(3, device="openreg").tolist())


# LITERALINCLUDE END: errors-allocation-fails


# LITERALINCLUDE START: errors-device-lost
def lost() -> None:
    """The device is lost while a hanging kernel runs on it."""
    x, y = torch.ones(4, device="openreg:0"), torch.ones(4, device="openreg:1")
    event = torch.Event("openreg:0")
    inject(HANG_FAULT)
    x.abs()
    event.record()
    attempt("before", event.query)
    inject(LOST_FAULT)
    attempt("query", event.query)
    attempt("kernel", lambda: x.abs())
    attempt("copy", lambda: x.tolist())
    attempt("copy to the other", lambda: x.to("openreg:1"))
    attempt("kernel of the other", lambda: y.abs().tolist())
    attempt("how many devices", torch.accelerator.device_count)
    del event
    print("the event is gone", file=sys.stderr)


# LITERALINCLUDE END: errors-device-lost


# LITERALINCLUDE START: errors-device-reset
def reset() -> None:
    """What no backend should offer: the driver's reset, under live tensors."""
    x = torch.full((4,), 7.0, device="openreg")
    inject(KERNEL_FAULT)
    x.abs()
    attempt("a kernel has failed", lambda: torch.accelerator.synchronize("openreg"))
    error = driver.orDeviceReset()
    assert error == 0
    attempt("the old tensor", lambda: x.tolist())
    attempt("a new one, from the cache", lambda: torch.ones(4, device="openreg").tolist())
    other = torch.full((1 << 20,), 3.0, device="openreg")
    attempt("the old tensor, once somebody has its memory", lambda: x.tolist())
    del other


# LITERALINCLUDE END: errors-device-reset


# LITERALINCLUDE START: errors-backward-fails
class FailsBackward(torch.autograd.Function):
    """A function whose backward fails in a given way."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, failure: Callable[[], Any]) -> torch.Tensor:
        """Gives the magnitude of x."""
        context.failure = failure
        return x.abs()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Fails, on a thread of the autograd engine."""
        context.failure()
        return gradient.abs(), None


def backward() -> None:
    """Errors on the engine's thread: from Python, from the backend, and from a kernel, which is reported later."""
    x = torch.ones(4, device="openreg", requires_grad=True)
    for what, failure in {
        "a Python error": lambda: {"present": 1}["absent"],
        "an argument": lambda: torch.ones(2, device="openreg:7"),
        "a kernel": lambda: inject(KERNEL_FAULT),
    }.items():
        loss = FailsBackward.apply(x, failure).sum()
        attempt(what, loss.backward)
    attempt("the gradient", lambda: x.grad.tolist() if x.grad is not None else None)


# LITERALINCLUDE END: errors-backward-fails


# LITERALINCLUDE START: errors-hang-noticed
def wait_at_most(event: torch.Event, seconds: float) -> None:
    """Waits for an event, and raises if it takes too long. The query raises errors of the device."""
    deadline = time.monotonic() + seconds
    while not event.query():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the device has not reached the event within {seconds} s")
        time.sleep(0.001)


def hang() -> None:
    """A kernel that never ends."""
    event = torch.Event("openreg")
    inject(HANG_FAULT)
    torch.ones(4, device="openreg").abs()
    event.record()
    attempt("with a deadline", lambda: wait_at_most(event, 0.2))


def wait_for_ever() -> None:
    """Waits as programs do, without a deadline; the watchdog prints where and ends the process."""
    hang()
    sys.stdout.flush()  # the watchdog ends the process without it
    faulthandler.dump_traceback_later(0.5, exit=True)
    torch.accelerator.synchronize("openreg")


# LITERALINCLUDE END: errors-hang-noticed


# LITERALINCLUDE START: errors-hang-signals
def signals() -> None:
    """Sends a signal to each of two processes that wait forever."""
    context = multiprocessing.get_context("fork")
    for number in (signal.SIGINT, signal.SIGTERM):
        waits = context.Event()
        child = context.Process(target=wait_quietly, args=(waits,))
        child.start()
        waits.wait()
        time.sleep(0.2)
        assert child.pid is not None
        os.kill(child.pid, number)
        child.join()
        print(f"{number.name}: it has ended, with status {child.exitcode}")


def wait_quietly(waits: multiprocessing.synchronize.Event) -> None:
    """Signals that it is about to wait, and gives up at Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells make background programs ignore it
    inject(HANG_FAULT)
    torch.ones(4, device="openreg").abs()
    waits.set()
    with contextlib.suppress(KeyboardInterrupt):
        torch.accelerator.synchronize("openreg")


# LITERALINCLUDE END: errors-hang-signals


def places() -> None:
    """The places that errors name when TORCH_SHOW_CPP_STACKTRACES is set."""
    os.environ["TORCH_DISABLE_ADDR2LINE"] = "1"
    from torch_openreg import _C

    def first_lines(call: Callable[[], Any]) -> None:
        try:
            call()
        except Exception as error:
            lines = str(error).splitlines()
            print(type(error).__name__, *(line for line in lines if line.startswith("Exception raised")))

    first_lines(lambda: _C._external_stream(5))
    first_lines(lambda: torch.openreg.set_device(9))
    inject(LOST_FAULT)
    first_lines(lambda: _C._synchronize(0))


if __name__ == "__main__":
    {
        "found-late": found_late,
        "kernel": kernel,
        "in-kernel": in_kernel,
        "allocation": allocation,
        "lost": lost,
        "reset": reset,
        "backward": backward,
        "wait-for-ever": wait_for_ever,
        "signals": signals,
        "places": places,
    }[sys.argv[1]]()
