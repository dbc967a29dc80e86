"""Device tensors in another process: shared memory, the order of streams, and what remains of a process that ends."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.multiprocessing as mp


# LITERALINCLUDE START: interop-process
def _serve(function: Callable[[Any], None], here: Any, there: Any) -> None:
    """In the other process. It drops its copy of our end, so that its function cannot wait for us once we have left."""
    here.close()
    function(there)


@contextlib.contextmanager
def other_process(function: Callable[[Any], None]) -> Iterator[Any]:
    """Runs the function in another process, with one end of a pipe, and gives the other end."""
    # Forking is allowed before this process has used the device. Programs use "spawn", which imports torch again.
    context = mp.get_context("fork" if not torch.openreg.is_initialized() else "spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(function, here, there))
    process.start()
    there.close()
    try:
        yield here
    finally:
        here.close()
        process.join()


# LITERALINCLUDE END: interop-process


# LITERALINCLUDE START: interop-share
def scale(pipe: Any) -> None:
    """In the other process: scales what arrives, in place."""
    x, row = pipe.recv()
    pipe.send(x.untyped_storage().data_ptr() == row.untyped_storage().data_ptr())
    row *= 10
    pipe.send(row.tolist())


def share() -> None:
    """Sends a tensor and a view of it. Both processes then have the same memory."""
    with other_process(scale) as pipe:
        x = torch.arange(6.0, device="openreg:1").view(2, 3).share_memory_()
        with torch.openreg.device(1):
            torch.openreg._sleep(200_000_000)  # nanoseconds, on the stream
        x += 1  # queued behind it
        pipe.send((x, x[1]))
        print("queued when it was sent:", not torch.openreg.current_stream(1).query())
        print("one storage there:", pipe.recv())
        print("the second row there:", pipe.recv())
        print("the tensor here:", x.tolist())
        print("shared, and resizable:", x.is_shared(), x.untyped_storage().resizable())


# LITERALINCLUDE END: interop-share


# LITERALINCLUDE START: interop-events
def produce(pipe: Any) -> None:
    """In the other process: writes behind a long kernel, and records the event."""
    x, done = pipe.recv()
    torch.openreg._sleep(200_000_000)
    x += 5
    done.record()
    pipe.send("queued")
    pipe.recv()


def order() -> None:
    """Lets a stream of this process wait for a kernel of the other one."""
    with other_process(produce) as pipe:
        x = torch.ones(2, device="openreg") * 1  # loads the kernel: only its first launch waits
        done = torch.openreg.InterprocessEvent()
        pipe.send((x, done))
        print(pipe.recv(), "there, passed:", done.query())
        done.wait()
        y = x * 2
        print("the host did not wait:", not done.query())
        print("after the kernel:", y.tolist(), done.query())
        done.synchronize()
        pipe.send("end")


# LITERALINCLUDE END: interop-events


# LITERALINCLUDE START: interop-ends
def lend(pipe: Any) -> None:
    """In the other process: sends two tensors, and is killed while the second is in the pipe."""
    pipe.send(torch.tensor([1.0, 2.0], device="openreg"))
    pipe.recv()
    pipe.send(torch.tensor([3.0], device="openreg"))
    os.kill(os.getpid(), signal.SIGKILL)


def outlive() -> None:
    """Uses memory of a process that no longer exists, and asks for more of it."""
    with other_process(lend) as pipe:
        x = pipe.recv()
        refused(lambda: pipe.send(x))
        pipe.send("received")
        for process in mp.active_children():
            process.join()
        try:
            pipe.recv()
        except RuntimeError as error:
            print("the second tensor:", "has ended" in str(error))
        print("the first tensor:", (x + 1).tolist())


# LITERALINCLUDE END: interop-ends


# LITERALINCLUDE START: interop-room
def room() -> None:
    """Shares a tensor on a device whose memory the cache of freed blocks has taken."""
    os.environ["OPENREG_DEVICE_MEMORY"] = "64M"  # read when the device is first used
    x = torch.ones(4 << 20, device="openreg")
    y = torch.empty(10 << 20, device="openreg")
    del y
    before = torch.accelerator.memory_reserved()
    print("shared:", x.share_memory_().is_shared(), "sum:", x.sum().item())
    print("the cache has given up blocks:", torch.accelerator.memory_reserved() < before)


# LITERALINCLUDE END: interop-room


# LITERALINCLUDE START: interop-refused
def refused(call: Callable[[], object]) -> None:
    """Prints the error that the call raises."""
    try:
        call()
    except (RuntimeError, TypeError) as error:
        print(f"{type(error).__name__}: {error}")


def refusals() -> None:
    """What cannot be sent, and where it raises."""
    here, _there = mp.get_context("spawn").Pipe()
    x = torch.ones(2, device="openreg")
    refused(lambda: here.send(x.to(torch.complex64).conj()))
    refused(lambda: here.send(x.requires_grad_() * 2))
    refused(lambda: here.send(torch.Event("openreg")))
    queue = mp.get_context("spawn").Queue()
    queue.put(x * 2)  # returns: a thread of the queue finds the error
    refused(queue.get)


# LITERALINCLUDE END: interop-refused

if __name__ == "__main__":
    import sys

    globals()[sys.argv[1]]()
