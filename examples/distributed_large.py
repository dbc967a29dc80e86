"""Large tensors of ranks on one machine: they stay on the device."""

from __future__ import annotations

import functools
import os
import re
import tempfile
from collections.abc import Callable

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks

MILLION = 1_000_000
REDUCTIONS = {
    "PRODUCT": torch.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}


# LITERALINCLUDE START: distributed-large
def summed(numel: int) -> tuple[float, int]:
    """The sum of the ranks' tensors, and how many blocks of pinned host memory it took."""
    before = torch.openreg.host_memory_stats()["num_host_alloc"]
    tensor = torch.full((numel,), 1.0 + dist.get_rank(), device="openreg")
    dist.all_reduce(tensor)
    torch.openreg.synchronize()
    return tensor[0].cpu().item(), torch.openreg.host_memory_stats()["num_host_alloc"] - before


def numbers(rank: int) -> torch.Tensor:
    """Three million numbers of a rank, which differ from place to place: more than a window holds."""
    return (torch.arange(3 * MILLION) % 1009 + 6 + rank).int()


def others() -> dict[str, bool]:
    """For each of the other collectives, whether all values are right on this rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    of_rank = [numbers(each) for each in range(size)]
    total = torch.stack(of_rank).sum(0, dtype=torch.int32)
    columns = torch.stack([numbers(rank), numbers(rank)], 1).to("openreg")
    mine = columns[:, 0]  # not contiguous
    right = {}

    def check(name: str, result: torch.Tensor, expected: torch.Tensor) -> None:
        right[name] = torch.equal(result.cpu(), expected)

    moved, summed = mine.clone(), mine.clone()
    dist.broadcast(moved, src=1)
    check("broadcast", moved, of_rank[1])
    gathered = mine.new_empty(size * len(mine))
    dist.all_gather_single(gathered, mine)
    check("all_gather", gathered, torch.cat(of_rank))
    scattered = mine.new_empty(len(mine) // size)
    dist.reduce_scatter_single(scattered, mine)
    check("reduce_scatter", scattered, total.chunk(size)[rank])
    collected = list(torch.empty_like(gathered).chunk(size)) if rank == 2 else None
    dist.gather(mine, collected, dst=2)
    check("gather", torch.cat(collected or [gathered]), torch.cat(of_rank))
    dist.scatter(scattered, list(mine.chunk(size)) if rank == 2 else None, src=2)
    check("scatter", scattered, of_rank[2].chunk(size)[rank])
    exchanged = torch.empty_like(moved)
    dist.all_to_all_single(exchanged, mine)
    check("all_to_all", exchanged, torch.cat([each.chunk(size)[rank] for each in of_rank]))
    dist.reduce(summed, dst=2)
    check("reduce", summed, total if rank == 2 else of_rank[rank])
    for name, function in REDUCTIONS.items():
        reduced = mine.clone()
        dist.all_reduce(reduced, getattr(dist.ReduceOp, name))
        check(name, reduced, functools.reduce(function, of_rank))
    average, weighted = mine.clone(), mine.float()
    dist.all_reduce(average, dist.ReduceOp.AVG)
    check("AVG", average, total // size)
    dist.all_reduce(weighted, dist._make_nccl_premul_sum(0.5))
    check("PREMUL_SUM", weighted, total / 2)
    return right


def elsewhere() -> float:
    """A tensor on another device than that of the first large operation."""
    summed(MILLION)
    device = (torch.openreg.current_device() + 1) % torch.openreg.device_count()
    tensor = torch.ones(MILLION, device=f"openreg:{device}")
    dist.all_reduce(tensor)
    return tensor[0].item()


# LITERALINCLUDE END: distributed-large


# LITERALINCLUDE START: distributed-windows-refused
def without_a_window() -> tuple[str, tuple[float, int]]:
    """Rank 1 has no memory left for its window."""
    taken = torch.empty((40 << 20) * dist.get_rank(), dtype=torch.uint8, device="openreg")
    warning, result = warned(lambda: summed(MILLION))
    del taken
    return warning, result


def warned(function: Callable[[], tuple[float, int]]) -> tuple[str, tuple[float, int]]:
    """What a warning of C++ says of windows, and what the function returns."""
    with tempfile.TemporaryFile() as file:
        stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            result = function()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        file.seek(0)
        found = re.search(r"Warning: .*?: (.*? \(\w+)", file.read().decode())
        return found.group(1) if found else "no warning", result


# LITERALINCLUDE END: distributed-windows-refused

if __name__ == "__main__":
    for numel in (1, MILLION):
        print(f"{4 * numel} bytes:", *on_ranks(summed, numel))
    on_three = on_ranks(others, size=3)
    for name in on_three[0]:
        print(f"{name:<14}", *(right[name] for right in on_three))
    print("on another device:", on_ranks(elsewhere))
    os.environ["OPENREG_DEVICE_MEMORY"] = "64M"
    for warning, result in on_ranks(without_a_window):
        print(f"{warning} ...): {result}")
