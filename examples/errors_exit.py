"""The ways in which a process that uses the device can end.

python examples/errors_exit.py              every way, each in a process of its own, and the status it ends with
python examples/errors_exit.py after-backward   that one, in this process
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable

started: list[str] = []  # the way in which this process ends


def tell_of_the_device() -> None:
    """Prints, at the end of the process that does not use the device, whether it is in use."""
    if started == ["without-the-device"]:
        print("the device is in use:", torch.openreg.is_initialized())


atexit.register(tell_of_the_device)  # runs after the functions that the import of torch registers

import torch  # noqa: E402

warnings.simplefilter("ignore", DeprecationWarning)  # from os.fork since Python 3.12: the engine has threads
KERNEL_FAULT, HANG_FAULT = 1, 2  # orFaultKernel, orFaultHang


def inject(fault: int) -> None:
    """Makes the next kernel of device 0 fail, or never end."""
    driver = ctypes.CDLL("libopenreg.so")  # the one that the backend has loaded
    error = driver.orInjectFault(fault, 0, 1)
    assert error == 0


class Waits(torch.autograd.Function):
    """Its backward waits for the device."""

    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        """Gives the magnitude of x."""
        return x.abs()

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
        """Gives the gradient."""
        torch.accelerator.synchronize("openreg")
        return gradient


# LITERALINCLUDE START: errors-exit-ways
class Double(torch.autograd.Function):
    """Twice x. Its backward gives the engine's thread the lowest priority: it runs only if no other thread is ready."""

    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        """Gives twice x."""
        return x.abs() * 2

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
        """Gives twice the gradient."""
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))
        return gradient * 2


def after_backward() -> None:
    """Ends as soon as backward has returned, while the engine's thread still holds the last of the graph."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one processor for both threads
    x = torch.ones(8, device="openreg", requires_grad=True)
    Double.apply(x).sum().backward()


def with_queued_work() -> None:
    """Ends with an hour of work queued, after a backward, and beside an idle thread."""
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    x = torch.ones(1 << 20, device="openreg", requires_grad=True)
    x.sum().backward()
    torch.openreg._sleep(3600 * 10**9)
    x.abs()


def with_a_hanging_kernel() -> None:
    """Ends right after a backward, while a kernel runs that never ends."""
    after_backward()
    hang()


def hang() -> None:
    """Makes a kernel hang."""
    x = torch.empty(8, device="openreg")
    inject(HANG_FAULT)
    x.abs()


def with_a_failed_kernel() -> None:
    """Ends after a failure that nothing has checked for, beside an idle thread."""
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    after_backward()
    inject(KERNEL_FAULT)
    torch.empty(8, device="openreg").abs()


def with_an_exception() -> None:
    """Ends with the traceback of the failure."""
    with_a_failed_kernel()
    torch.accelerator.synchronize("openreg")


def by_os_exit() -> None:
    """Ends at once, without calling the functions registered with atexit."""
    hang()
    os._exit(3)


def by_sigterm() -> None:
    """Is ended by SIGTERM while it waits for a kernel that hangs."""
    hang()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    torch.accelerator.synchronize("openreg")


def from_a_thread() -> None:
    """Ends right after a thread other than the main one has run a backward, beside an idle one."""
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    thread = threading.Thread(target=after_backward)
    thread.start()
    thread.join()


def beside_a_waiting_thread() -> None:
    """Ends while a daemon thread waits for a kernel that hangs: Python does not join daemon threads at exit."""
    hang()
    threading.Thread(target=torch.accelerator.synchronize, args=("openreg",), daemon=True).start()
    time.sleep(0.2)


def beside_a_waiting_backward() -> None:
    """The same, but an engine thread waits inside a backward, and the daemon thread waits for it."""
    x = torch.ones(8, device="openreg", requires_grad=True)
    y, gradient = Waits.apply(x), torch.ones(8, device="openreg")
    hang()
    threading.Thread(target=y.backward, args=(gradient,), daemon=True).start()
    time.sleep(0.2)


def without_the_device() -> None:
    """Ends after a backward on the CPU; nothing may put the device into use now."""
    torch.ones(8, requires_grad=True).sum().backward()


def in_a_forked_child() -> None:
    """A child ends after its parent has run a backward on the CPU, for which the engine has started its threads."""
    torch.ones(8, requires_grad=True).sum().backward()
    if (child := os.fork()) == 0:
        signal.alarm(5)  # half of the time that PyTorch would wait for these threads
        sys.exit(4)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


# LITERALINCLUDE END: errors-exit-ways

WAYS: dict[str, tuple[Callable[[], None], int]] = {
    "after-backward": (after_backward, 0),
    "with-queued-work": (with_queued_work, 0),
    "with-a-hanging-kernel": (with_a_hanging_kernel, 0),
    "with-a-failed-kernel": (with_a_failed_kernel, 0),
    "with-an-exception": (with_an_exception, 1),
    "by-os-exit": (by_os_exit, 3),
    "by-sigterm": (by_sigterm, -signal.SIGTERM),
    "from-a-thread": (from_a_thread, 0),
    "beside-a-waiting-thread": (beside_a_waiting_thread, 0),
    "beside-a-waiting-backward": (beside_a_waiting_backward, 0),
    "without-the-device": (without_the_device, 0),
    "in-a-forked-child": (in_a_forked_child, 4),
}


def start(way: str, output: int) -> int:
    """Forks a process that ends in that way, and returns its ID. Its output goes to a file descriptor.

    In the child this does not return: it exits or raises as that way does. After a minute SIGALRM kills it.
    """
    if (child := os.fork()) != 0:
        return child
    for stream in (sys.stdout, sys.stderr):
        os.dup2(output, stream.fileno())
    signal.alarm(60)
    started.append(way)
    WAYS[way][0]()
    sys.exit()


def main() -> None:
    """Runs one way here, or each in a process of its own. This process has not used the device."""
    if sys.argv[1:]:
        started.append(sys.argv[1])
        WAYS[sys.argv[1]][0]()
        return
    with contextlib.ExitStack() as stack:
        files = {way: stack.enter_context(tempfile.TemporaryFile("w+")) for way in WAYS}
        children = {way: start(way, file.fileno()) for way, file in files.items()}
        for way, child in children.items():
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            files[way].seek(0)
            print(f"{way}: {status}", *files[way].read().splitlines()[-1:])


if __name__ == "__main__":
    main()
