"""Ranks that continue when one of them has been killed."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks


# LITERALINCLUDE START: distributed-recovered
def sum_without(victim: int, store: Path) -> list[float]:
    """A sum over the ranks. The victim is killed before it; the others create a group of their own and repeat it."""
    rank = dist.get_rank()
    if rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    tensor = torch.full((2,), 10.0**rank, device="openreg")
    try:
        dist.all_reduce(tensor)
    except dist.DistBackendError:
        survivors = [other for other in range(dist.get_world_size()) if other != victim]
        dist.destroy_process_group()
        dist.init_process_group(
            "staged", init_method=f"file://{store}", rank=survivors.index(rank), world_size=len(survivors)
        )
        tensor = torch.full((2,), 10.0**rank, device="openreg")
        dist.all_reduce(tensor)
    return tensor.tolist()


# LITERALINCLUDE END: distributed-recovered

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for rank, outcome in enumerate(on_ranks(sum_without, 1, Path(folder) / "store", size=3)):
            print(f"rank {rank}: {outcome}")
