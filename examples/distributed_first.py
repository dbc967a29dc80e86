"""The sum of two tensors that are on the devices of two processes."""

from __future__ import annotations

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks


# LITERALINCLUDE START: distributed-first
def total() -> str:
    """Each rank contributes its own numbers, and gets the sums."""
    rank = dist.get_rank()
    tensor = torch.tensor([1.0, 10.0], device="openreg") * (rank + 1)
    before = tensor.tolist()
    dist.all_reduce(tensor)
    return f"rank {rank} on {tensor.device}: {before} -> {tensor.tolist()}"


# LITERALINCLUDE END: distributed-first

if __name__ == "__main__":
    for line in on_ranks(total):
        print(line)
    print("with Gloo alone:", on_ranks(total, backend="gloo")[0])
