"""When a collective reads its input, and what wait() waits for."""

from __future__ import annotations

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks


# LITERALINCLUDE START: distributed-order
def behind_a_kernel() -> list[object]:
    """A collective on a tensor that a queued kernel has yet to write."""
    tensor = torch.zeros(3, device="openreg")
    torch.openreg._sleep(100_000_000)  # the device is busy for 0.1 s
    tensor += 1
    work = dist.all_reduce(tensor, async_op=True)
    returned_early = not work.is_completed()
    work.wait()
    tensor *= 10
    return [returned_early, tensor.tolist()]


def with_a_callback() -> list[float]:
    """The future of a Work orders the device as wait() does."""
    work = dist.all_reduce(torch.ones(3, device="openreg"), async_op=True)
    future = work.get_future().then(lambda done: done.value()[0] / dist.get_world_size())
    average: torch.Tensor = future.wait()
    return average.tolist()


# LITERALINCLUDE END: distributed-order

if __name__ == "__main__":
    print("behind a kernel:", on_ranks(behind_a_kernel))
    print("with a callback:", on_ranks(with_a_callback))
