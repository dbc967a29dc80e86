"""A rank that does not come to a large operation, and ranks that call different ones."""

from __future__ import annotations

import re

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks


# LITERALINCLUDE START: distributed-missed
def one_too_many(together: int) -> None:
    """Rank 0 calls one operation more than rank 1."""
    tensor = torch.ones(1_000_000, device="openreg")
    for _ in range(together + 1 - dist.get_rank()):
        dist.all_reduce(tensor)


# LITERALINCLUDE END: distributed-missed


# LITERALINCLUDE START: distributed-different
def of_two_kinds() -> None:
    """Rank 0 adds up float numbers, and rank 1 sends some."""
    tensor = torch.ones(1_000_000, device="openreg")
    if dist.get_rank() == 0:
        dist.all_reduce(tensor)
    else:
        dist.broadcast(tensor, src=1)


def by_two_reductions() -> None:
    """Rank 0 adds up, and rank 1 looks for the largest."""
    dist.all_reduce(torch.ones(1_000_000, device="openreg"), [dist.ReduceOp.SUM, dist.ReduceOp.MAX][dist.get_rank()])


# LITERALINCLUDE END: distributed-different


# LITERALINCLUDE START: distributed-uneven
def of_two_sizes() -> None:
    """Rank 0 sends two numbers, and rank 1 expects three."""
    sends = [3, 2] if dist.get_rank() == 0 else [3, 3]
    output = torch.empty(6, device="openreg")
    dist.all_to_all_single(output, torch.ones(sum(sends), device="openreg"), [3, 3], sends)


# LITERALINCLUDE END: distributed-uneven

if __name__ == "__main__":
    for together in (0, 1):
        # Without what Gloo says of the connection.
        print(re.sub(r"\[/.*?\] |(send|recv) ", "", on_ranks(one_too_many, together, seconds=2)[0]))
    for different in (of_two_kinds, by_two_reductions, of_two_sizes):
        print(on_ranks(different)[0])
