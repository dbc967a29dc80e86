"""What torchrun starts in the tests of jobs: trains, and writes what each rank has to a file of the given folder.

With a second argument, `restart`, rank 1 ends at step 2 of the first attempt, and the next goes on from a checkpoint.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.training import ROWS, STEPS, batch, loss_of, network


def collectives(rank: int, size: int) -> dict[str, list[float]]:
    """Results of operations that every rank takes part in."""
    x = torch.arange(3.0, device="openreg") + 10 * rank
    summed = x.clone()
    dist.all_reduce(summed)
    parts = torch.empty(size, 3, device="openreg")
    dist.all_gather_into_tensor(parts, x)
    swapped = torch.empty(size, device="openreg")
    dist.all_to_all_single(swapped, torch.arange(float(size), device="openreg") + 100 * rank)
    return {"sum": summed.tolist(), "parts": parts.flatten().tolist(), "swapped": swapped.tolist()}


def train(rank: int, size: int, restarts: Path | None) -> list[float]:
    """The weights of DDP after STEPS steps, each on the rank's part of the batch."""
    model = network().to("openreg")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = 0
    if restarts is not None and restarts.exists():
        saved = torch.load(restarts, map_location="openreg")
        model.load_state_dict(saved["model"])
        first = saved["step"]
    ddp = DistributedDataParallel(model)
    share = slice(rank * ROWS // size, (rank + 1) * ROWS // size)
    for step in range(first, STEPS):
        if restarts is not None and step == 2 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            dist.barrier()  # the checkpoint is complete
            if rank == 1:
                os._exit(9)
        x, y = (part[share].to("openreg") for part in batch(step))
        optimizer.zero_grad()
        loss_of(ddp, x, y).backward()
        optimizer.step()
        if restarts is not None and rank == 0:
            torch.save({"model": model.state_dict(), "step": step + 1}, restarts)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).tolist()


def main() -> None:
    """Writes the rank's results."""
    folder = Path(sys.argv[1])
    restarts = folder / "checkpoint.pt" if sys.argv[2:] == ["restart"] else None
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.openreg.set_device(int(os.environ["LOCAL_RANK"]) % torch.openreg.device_count())
    result = {
        "rank": rank,
        "host": os.environ["GROUP_RANK"],
        "attempt": os.environ["TORCHELASTIC_RESTART_COUNT"],
        **collectives(rank, size),
        "weights": train(rank, size, restarts),
    }
    (folder / f"{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
