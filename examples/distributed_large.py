"""Large tensors of ranks on one machine: they stay on the device."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks

MILLION = 1_000_000


# LITERALINCLUDE START: distributed-large
def summed(numel: int) -> tuple[float, int]:
    """The sum of the ranks' tensors, and how many blocks of pinned host memory it took."""
    before = torch.openreg.host_memory_stats()["num_host_alloc"]
    tensor = torch.full((numel,), 1.0 + dist.get_rank(), device="openreg")
    dist.all_reduce(tensor)
    torch.openreg.synchronize()
    return tensor[0].cpu().item(), torch.openreg.host_memory_stats()["num_host_alloc"] - before


def others() -> dict[str, list[int]]:
    """The first values that the other collectives give, of five million numbers."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = torch.full((5 * MILLION, 2), 6 + rank, dtype=torch.int32, device="openreg")[:, 0]  # not contiguous
    moved = mine.clone()
    dist.broadcast(moved, src=1)
    gathered = mine.new_empty(size * len(mine))
    dist.all_gather_single(gathered, mine)
    scattered = mine.new_empty(len(mine))
    dist.reduce_scatter_single(scattered, mine.repeat(size))
    results = {"broadcast": moved[:1], "gathered": gathered[:: len(mine)], "scattered": scattered[:1]}
    collected = list(torch.empty_like(gathered).chunk(size)) if rank == 0 else None
    dist.gather(mine, collected, dst=0)
    back, exchanged, summed = torch.empty_like(moved), torch.empty_like(gathered), mine.clone()
    dist.scatter(back, collected, src=0)
    dist.all_to_all_single(exchanged, mine.repeat(size))
    dist.reduce(summed, dst=0)
    results |= {"back": back[:1], "exchanged": exchanged[:: len(mine)], "reduced": summed[:1]}
    for name in ("AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
        results[name] = mine.narrow(0, 0, MILLION).clone()
        dist.all_reduce(results[name], getattr(dist.ReduceOp, name))
    weighted = mine.float()
    dist.all_reduce(weighted, dist._make_nccl_premul_sum(0.5))
    average = mine.float()
    dist.all_reduce(average, dist.ReduceOp.AVG)
    results |= {"weighted": weighted, "average": average}
    return {name: [int(value) for value in result.cpu()[:size]] for name, result in results.items()}


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
        result = function()
        os.dup2(stderr, 2)
        file.seek(0)
        found = re.search(r"Warning: .*?: (.*? \(\w+)", file.read().decode())
        return found.group(1) if found else "no warning", result


# LITERALINCLUDE END: distributed-windows-refused

if __name__ == "__main__":
    for numel in (1, MILLION):
        print(f"{4 * numel} bytes:", *on_ranks(summed, numel))
    for name, values in on_ranks(others, size=3)[0].items():
        print(f"{name}: {values}")
    print("on another device:", on_ranks(elsewhere))
    os.environ["OPENREG_DEVICE_MEMORY"] = "64M"
    for warning, result in on_ranks(without_a_window):
        print(f"{warning} ...): {result}")
