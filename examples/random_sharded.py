"""A tensor that is sharded over four processes, and the same tensor on one device: PyTorch sets the offset for each."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, rand
from torch.distributed.tensor._random import manual_seed
from torch.testing._internal.distributed.fake_pg import FakeStore


# LITERALINCLUDE START: random-sharded
def main(columns: int) -> None:
    """Simulates the four processes one after the other. The process group is a fake: drawing needs no messages."""
    print(f"8 rows of {columns}")
    torch.manual_seed(7)
    whole = torch.rand(8, columns, device="openreg")
    dropped = torch.nn.functional.dropout(whole, 0.5)
    for rank in range(4):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=4)
        mesh = dist.device_mesh.init_device_mesh("openreg", (4,))
        manual_seed(7, mesh)
        shard = rand(8, columns, device_mesh=mesh, placements=[Shard(0)])
        rows = slice(2 * rank, 2 * rank + 2)
        print(
            f"process {rank}: rows {rows.start} and {rows.stop - 1} of the whole:",
            torch.equal(shard.to_local(), whole[rows]),
            torch.equal(torch.nn.functional.dropout(shard, 0.5).to_local(), dropped[rows]),
            torch.openreg.get_rng_state().view(torch.int64).tolist(),
        )
        dist.destroy_process_group()


# LITERALINCLUDE END: random-sharded

if __name__ == "__main__":
    for argument in sys.argv[1:]:
        main(int(argument))
