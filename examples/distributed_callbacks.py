"""Callbacks that start collectives, and one that waits for what cannot start."""

from __future__ import annotations

import threading
import time

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks


# LITERALINCLUDE START: distributed-callbacks
def started_by_a_callback() -> tuple[bool, list[float]]:
    """Rank 0 adds the callback before its collective ends, rank 1 after that."""
    first, second, third, last = (torch.tensor([10.0**power], device="openreg") for power in range(4))
    thread_of_program = threading.get_ident()
    runs_later: list[bool] = []

    def callback(_: torch.futures.Future[list[torch.Tensor]]) -> None:
        runs_later.append(threading.get_ident() != thread_of_program)
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in (second, third)]:
            work.wait()

    if dist.get_rank() == 1:
        time.sleep(0.3)
    work = dist.all_reduce(first, async_op=True)
    if dist.get_rank() == 1:
        work.wait()
    future = work.get_future().then(callback)
    dist.all_reduce(last)
    future.wait()
    return runs_later[0], [tensor.item() for tensor in (first, second, third, last)]


# LITERALINCLUDE END: distributed-callbacks


# LITERALINCLUDE START: distributed-held-up
def waits_for_a_later_one() -> None:
    """A callback of rank 0 waits for a collective that the program calls after it has added the callback."""
    tensors = torch.ones(2, 3, device="openreg")
    if dist.get_rank() == 1:
        time.sleep(0.3)
        for tensor in tensors:
            dist.all_reduce(tensor)
        return
    later: list[dist.Work] = []
    is_called = threading.Event()

    def callback(_: torch.futures.Future[list[torch.Tensor]]) -> None:
        is_called.wait(10)  # NOT PROVEN: runs on a thread of C++, which Python does not trace
        later[0].wait()  # NOT PROVEN: as above; the page shows what it raises

    future = dist.all_reduce(tensors[0], async_op=True).get_future().then(callback)
    later.append(dist.all_reduce(tensors[1], async_op=True))
    is_called.set()
    future.wait()


# LITERALINCLUDE END: distributed-held-up


# LITERALINCLUDE START: distributed-after-receive
def starts_after_a_receive() -> None:
    """A callback of a message starts a collective, whenever the message arrives."""
    message, ones = torch.zeros(3, device="openreg"), torch.ones(3, device="openreg")
    if dist.get_rank() == 1:
        dist.all_reduce(ones)
        dist.send(ones, 0)
        return
    receive = dist.irecv(message, 1)
    future = receive.get_future().then(lambda _: dist.all_reduce(message, async_op=True))
    dist.all_reduce(ones)
    future.wait()


# LITERALINCLUDE END: distributed-after-receive

if __name__ == "__main__":
    for rank, (runs_later, sums) in enumerate(on_ranks(started_by_a_callback)):
        print(f"rank {rank}, {'on another thread' if runs_later else 'where it adds it'}: {sums}")
    print(on_ranks(waits_for_a_later_one)[0])
    print(on_ranks(starts_after_a_receive)[0])
