"""Ways in which a process that uses the device ends.

    python tests/runtime/ends.py WAY    this process, in that way

Each way states the exit status of its process, and what it may write to stdout and stderr. test_ends.py runs each a few
times.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import ctypes
import importlib
import itertools
import json
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

HOUR = 3600 * 10**9  # nanoseconds
PYTHON_BACKEND = Path(__file__).parents[2] / "examples" / "python_backend"

before_torch: list[Callable[[], None]] = []
# Registered before torch is imported, so called after all exit functions of torch.
atexit.register(lambda: [function() for function in before_torch])

# A process can load only one of the two backends.
if "in-the-python-backend" in sys.argv:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    sys.path[:0] = [str(PYTHON_BACKEND), str(PYTHON_BACKEND / "build")]

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

alive: list[object] = []  # destroyed only when the interpreter shuts down


@dataclass(frozen=True)
class Way:
    """How a process ends, and the outcome that is expected."""

    run: Callable[[], None]
    status: int = 0
    stdout: str = ""
    error: str = ""  # the last line of the traceback on stderr; if empty, stderr must be empty


def ones(*sizes: int) -> torch.Tensor:
    """A tensor on the device."""
    return torch.ones(sizes or (8,), device="openreg")


def queue_work() -> None:
    """Queues an hour of work, and kernels and copies after it."""
    x = ones(1 << 20)
    alive.append(x)
    torch.openreg._sleep(HOUR)
    for _ in range(20):
        x = x.abs()
    alive.append(torch.ones(1000).to("openreg", non_blocking=True))


def daemon(function: Callable[[], object]) -> None:
    """Runs the function in a loop on a daemon thread."""

    def run() -> None:
        while True:
            function()

    threading.Thread(target=run, daemon=True).start()


def send_soon(number: int) -> None:
    """Sends a signal to this process while it waits for the device."""
    threading.Timer(0.1, os.kill, (os.getpid(), number)).start()


def by_sys_exit() -> None:
    queue_work()
    sys.exit(7)


def by_an_exception() -> None:
    queue_work()
    raise ValueError("the end")


def by_os_exit() -> None:
    queue_work()
    os._exit(3)


def by_sigterm() -> None:
    queue_work()
    send_soon(signal.SIGTERM)
    torch.accelerator.synchronize()


def by_sigint() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background programs ignore it
    queue_work()
    send_soon(signal.SIGINT)
    torch.accelerator.synchronize()


def beside_daemon_threads() -> None:
    """One thread waits for the device, one for a value, and one for an event."""
    total = ones().sum()
    torch.openreg._sleep(HOUR)
    event = torch.Event("openreg")
    event.record()
    daemon(torch.accelerator.synchronize)
    daemon(total.item)
    daemon(event.synchronize)
    time.sleep(0.05)


def during_copies_from_pageable_memory() -> None:
    """Large copies, whose threads wait because the sources die with the call; and small ones, from staging buffers."""
    x, y = ones(1 << 20), ones(1 << 20)
    torch.openreg._sleep(HOUR)
    daemon(lambda: x.copy_(torch.ones(1 << 20)))
    daemon(lambda: y.copy_(torch.ones(1 << 20, dtype=torch.float64)))  # through a temporary of the operator
    time.sleep(0.1)
    for _ in range(50):
        alive.append(torch.ones(1 << 18).to("openreg", non_blocking=True))


def during_copies_from_pinned_memory() -> None:
    """During queued copies whose source has been freed, while a thread waits to free other pinned memory."""
    x, source = ones(1 << 22), torch.ones(1 << 22).pin_memory()
    for _ in range(500):
        x.copy_(source, non_blocking=True)
    del source
    torch.openreg._sleep(HOUR)
    driver, memory = ctypes.CDLL("libopenreg.so"), ctypes.c_void_p()
    assert driver.orMallocHost(ctypes.byref(memory), ctypes.c_size_t(1 << 20)) == 0
    daemon(lambda: driver.orFreeHost(memory))


def inside_a_kernel() -> None:
    """Ends while a worker runs one kernel, and others are queued."""
    x = ones(1 << 22)
    for _ in range(1000):
        x.abs_()


def in_a_fork() -> None:
    """The child goes through a full interpreter shutdown, with its parent's tensors."""
    queue_work()
    with warnings.catch_warnings():
        # Python 3.12 and newer warn of what this is about.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            ones()
        except RuntimeError as error:
            print("fork" in str(error), flush=True)
        sys.exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def with_exit_handlers() -> None:
    """The handlers use the device, one before and one after those of torch and the backend."""
    x = ones()

    def use() -> None:
        print(x.sum().item(), torch.ones(4).to("openreg").cpu().sum().item())

    atexit.register(use)
    before_torch.append(use)


class Late:
    """Uses the device when it is destroyed, which is when the interpreter tears down its modules."""

    def __init__(self) -> None:
        self.tensor = ones()
        self.again = self  # a cycle: only the garbage collector frees it

    def __del__(self) -> None:
        sys.stdout.write(f"{self.tensor.sum().item()}\n")


def with_tensors_alive() -> None:
    """In modules and cycles, with gradients, on streams of their own, and pinned."""
    model = torch.nn.Linear(100, 100, device="openreg")
    model(ones(4, 100)).sum().backward()
    with torch.Stream("openreg"):
        alive.extend([model, ones(), torch.ones(1000).pin_memory(), torch.Event("openreg"), Late()])


def in_modes_of_pytorch() -> None:
    """Without gradients, and behind a mode that sees every operator."""

    class Seeing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            raise AssertionError("nothing may be computed behind a program's mode")

    x = torch.ones(4, device="openreg", requires_grad=True)
    (x * 2).sum().backward()
    torch.set_grad_enabled(False)
    mode = Seeing()
    mode.__enter__()
    alive.append(mode)


def on_two_devices() -> None:
    """Each device waits for an event of the other, and copies between them are queued."""
    x, y = torch.ones(1 << 20, device="openreg:0"), torch.ones(1 << 20, device="openreg:1")
    with torch.device("openreg:1"):
        torch.accelerator.set_device_index(1)
        torch.openreg._sleep(HOUR)
    for _ in range(10):
        x.copy_(y, non_blocking=True)
        y.copy_(x, non_blocking=True)
    daemon(lambda: torch.accelerator.synchronize("openreg:0"))
    time.sleep(0.05)


def inject_kernel_fault() -> None:
    """Makes the next kernel of device 0 fail."""
    driver = ctypes.CDLL("libopenreg.so")  # the one that the backend has loaded
    assert driver.orInjectFault(1, 0, 1) == 0


def after_an_error() -> None:
    """The error was caught on one device, and the other device works."""
    kept = [ones() for _ in range(10)]
    alive.extend([kept, torch.ones(8).pin_memory(), torch.Event("openreg")])
    inject_kernel_fault()
    kept[0].abs()
    try:
        torch.accelerator.synchronize("openreg:0")
    except torch.AcceleratorError:
        print("caught")
    x = torch.ones(8, device="openreg:1", requires_grad=True)
    x.sum().backward()


def in_the_python_backend() -> None:
    """With work queued in the process that plays the device, and tensors alive."""
    importlib.import_module("torch_remote").register()  # only this way has it on the import path
    x = torch.ones(1 << 20, device="remote")
    for _ in range(100):
        x = x.abs()
    alive.append(x)


class Numbers(torch.utils.data.Dataset[torch.Tensor]):
    """A dataset of tensors, each filled with its index."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((100,), float(index))


def in_the_middle_of_a_data_loader() -> None:
    """Its workers are forks of a process that uses the device, and its thread pins their batches."""
    total = ones(100)
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2, pin_memory=True)
    batches = iter(loader)
    for _ in range(5):
        total += next(batches).to("openreg", non_blocking=True).sum(0)
    print(total[0].item())


def in_a_fork_after_a_backward() -> None:
    """The child has none of the threads that the engine has started, even for a backward on the CPU."""
    torch.ones(2, requires_grad=True).sum().backward()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(5)  # PyTorch's wait for these threads takes ten seconds
        sys.exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


WAYS: dict[str, Way] = {
    "by-return": Way(queue_work),
    "by-sys-exit": Way(by_sys_exit, 7),
    "by-an-exception": Way(by_an_exception, 1, error="ValueError: the end"),
    "by-os-exit": Way(by_os_exit, 3),
    "by-sigterm": Way(by_sigterm, -signal.SIGTERM),
    "by-sigint": Way(by_sigint, -signal.SIGINT, error="KeyboardInterrupt"),
    "beside-daemon-threads": Way(beside_daemon_threads),
    "during-copies-from-pageable-memory": Way(during_copies_from_pageable_memory),
    "during-copies-from-pinned-memory": Way(during_copies_from_pinned_memory),
    "inside-a-kernel": Way(inside_a_kernel),
    "in-a-fork": Way(in_a_fork, stdout="True\n5\n"),
    "in-a-fork-after-a-backward": Way(in_a_fork_after_a_backward, stdout="5\n"),
    "with-exit-handlers": Way(with_exit_handlers, stdout="8.0 4.0\n8.0 4.0\n"),
    "with-tensors-alive": Way(with_tensors_alive, stdout="8.0\n"),
    "in-modes-of-pytorch": Way(in_modes_of_pytorch),
    "on-two-devices": Way(on_two_devices),
    "after-an-error": Way(after_an_error, stdout="caught\n"),
    "in-the-middle-of-a-data-loader": Way(in_the_middle_of_a_data_loader, stdout="191.0\n"),
}
if PYTHON_BACKEND.is_dir():  # an example of the guide, which a backend derived from it does not have
    WAYS["in-the-python-backend"] = Way(in_the_python_backend)


@dataclass(frozen=True)
class Seen:
    """The observed or expected outcome of a process."""

    status: int  # negative: the signal that killed it, SIGALRM if it did not end within a minute
    stdout: str
    stderr: tuple[str, ...]  # its first line and its last


def expected(name: str) -> Seen:
    """The expected outcome of a process that ends in that way."""
    error = ("Traceback (most recent call last):", WAYS[name].error) if WAYS[name].error else ()
    return Seen(WAYS[name].status, WAYS[name].stdout, error)


def start(name: str, mode: str, stdout: int, stderr: int) -> int:
    """Forks a process that ends in that way, in a launch mode, and returns its process id.

    This process has imported torch but not used the device. In the child the call does not return, but raises whatever
    the way ends with. The child's output goes to the two file descriptors.
    """
    if (child := os.fork()) != 0:
        return child
    os.dup2(stdout, sys.stdout.fileno())
    os.dup2(stderr, sys.stderr.fileno())
    os.environ["OPENREG_LAUNCH"] = mode
    signal.alarm(60)
    WAYS[name].run()
    sys.exit()


def seen_of(name: str, mode: str, runs: int, jobs: int) -> Iterator[Seen]:
    """Runs `runs` processes that end in that way, `jobs` at a time, and yields the outcome of each."""
    for first in range(0, runs, jobs):
        with contextlib.ExitStack() as stack:
            pairs = [
                (stack.enter_context(tempfile.TemporaryFile("w+")), stack.enter_context(tempfile.TemporaryFile("w+")))
                for _ in range(min(jobs, runs - first))
            ]
            children = [start(name, mode, out.fileno(), error.fileno()) for out, error in pairs]
            for child, (out, error) in zip(children, pairs, strict=True):
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                out.seek(0)
                error.seek(0)
                lines = error.read().splitlines()
                yield Seen(status, out.read(), (lines[0], lines[-1]) if lines else ())


def main() -> None:
    """Ends this process in one way, or with --runs many processes in several, and prints the outcomes as JSON lines."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ways", nargs="+", metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--modes", nargs="+", default=["auto"], help="launch modes")
    parser.add_argument("--runs", type=int, help="processes for each way and mode")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    asked = parser.parse_args()
    if asked.runs is None:
        WAYS[asked.ways[0]].run()
        return
    for name, mode in itertools.product(asked.ways, asked.modes):
        for seen in seen_of(name, mode, asked.runs, asked.jobs):
            print(json.dumps([name, mode, *astuple(seen)]), flush=True)


if __name__ == "__main__":
    main()
