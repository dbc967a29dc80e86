"""The other collectives, with numbers that show where each value came from: 10 times its rank, plus its position."""

from __future__ import annotations

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from examples.distributed_ranks import on_ranks


def _numbers(count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.arange(count) + 10 * dist.get_rank()).to(dtype).to("openreg")


# LITERALINCLUDE START: distributed-collectives
def moved() -> dict[str, object]:
    """Values that travel."""
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = torch.empty(size, dtype=torch.int64, device="openreg")
    dist.all_to_all_single(rows, _numbers(size, torch.int64))
    pieces = [torch.empty(1, device="openreg") for _ in range(size)]
    dist.all_to_all(pieces, list(_numbers(size).split(1)))
    received = torch.empty(2, device="openreg")
    pair = [
        dist.P2POp(dist.isend, _numbers(2), (rank + 1) % size),
        dist.P2POp(dist.irecv, received, (rank - 1) % size),
    ]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    again = torch.empty(2, device="openreg")
    with dist.distributed_c10d._coalescing_manager(device=again.device, async_ops=True) as both:
        dist.isend(_numbers(2), (rank + 1) % size)
        dist.irecv(again, (rank - 1) % size)
    both.wait()
    assert torch.equal(again, received)
    dist.barrier(device_ids=[torch.openreg.current_device()])
    return {
        "all_to_all_single": rows.tolist(),
        "all_to_all": torch.cat(pieces).tolist(),
        "from the left": received.tolist(),
    }


def reduced() -> dict[str, object]:
    """Values that are combined."""
    part = torch.empty(1, device="openreg")
    dist.reduce_scatter_single(part, _numbers(2))
    average = _numbers(2, torch.int32)
    dist.all_reduce(average, dist.ReduceOp.AVG)
    anyone = torch.tensor([dist.get_rank() == 1, False], device="openreg")
    dist.all_reduce(anyone)
    halves = _numbers(2)
    work = dist.all_reduce(halves, dist._make_nccl_premul_sum(0.5), async_op=True)
    work.wait(timedelta(seconds=10))  # the stream waits for the copy to the device
    torch.accelerator.synchronize()  # and the host
    assert work.is_completed()
    return {
        "reduce_scatter_single": part.tolist(),
        "AVG of int32": average.tolist(),
        "SUM of bool": anyone.tolist(),
        "PREMUL_SUM by 0.5": halves.tolist(),
    }


def large() -> dict[str, object]:
    """The same with 2 MB. Tensors of this size stay on the device."""
    before = torch.openreg.host_memory_stats()["num_host_alloc"]
    many = _numbers(500_000)
    everyone = [torch.empty_like(many) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, many)
    half = torch.empty(250_000, device="openreg")
    dist.reduce_scatter_single(half, many)
    whole = many.clone()
    dist.all_reduce(whole)
    dist.broadcast(many, src=1)
    blocks = torch.openreg.host_memory_stats()["num_host_alloc"] - before
    dist.barrier()  # of the device that the group was given
    return {
        "all_gather": [tensor[1].item() for tensor in everyone],
        "reduce_scatter_single": half[:1].tolist(),
        "all_reduce": whole[:2].tolist(),
        "broadcast": many[:2].tolist(),
        "blocks of pinned memory": blocks,
    }


# LITERALINCLUDE END: distributed-collectives

if __name__ == "__main__":
    results = {function: on_ranks(function, with_device=function is large) for function in (moved, reduced, large)}
    for function, (first, second) in results.items():
        print(f"{function.__name__}:")
        for name, value in first.items():
            print(f"    {name}: {value} and {second[name]}")
    os.environ["OPENREG_COLLECTIVES"] = "staged"
    print("the same through host memory:", on_ranks(moved) == results[moved])
    print("pinned memory for 2 MB:", on_ranks(large, with_device=True)[0]["blocks of pinned memory"] > 0)
