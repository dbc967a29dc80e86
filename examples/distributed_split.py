"""Groups of some of the ranks, split off an existing group."""

from __future__ import annotations

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks


# LITERALINCLUDE START: distributed-part-of-group
def split_off() -> float | None:
    """Ranks 0 and 2 are one group, and rank 1 is in none."""
    group = dist.split_group(split_ranks=[[0, 2]])
    if not isinstance(group, dist.ProcessGroup):  # None, or since PyTorch 2.14 GroupMember.NON_GROUP_MEMBER
        return None
    tensor = torch.full((3,), 10.0 + dist.get_rank(), device="openreg")
    dist.all_reduce(tensor, group=group)
    return tensor[0].item()


# LITERALINCLUDE END: distributed-part-of-group

if __name__ == "__main__":
    print(on_ranks(split_off, size=3, with_device=True))
