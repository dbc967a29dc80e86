"""What DistributedDataParallel reports about the time of its parts, by the timer of the device."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from examples.distributed_ranks import on_ranks

MILLISECOND = 1_000_000  # nanoseconds, as in DDP's report


# LITERALINCLUDE START: distributed-times
class Slow(nn.Module):
    """A layer whose forward pass takes the device 40 ms, and whose backward pass takes 20."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Returns one number for each row, once the device has slept."""
        torch.openreg._sleep(40 * MILLISECOND)
        y: Tensor = self.linear(x)
        y.register_hook(lambda gradient: torch.openreg._sleep(20 * MILLISECOND))
        return y


def reported() -> dict[str, int]:
    """The times of a step, in nanoseconds. The host only queues it, which takes it much less time."""
    model = DistributedDataParallel(Slow().to("openreg"))
    for _ in range(2):  # the report is of the step before
        model(torch.ones(2, 4, device="openreg")).sum().backward()
    return {name: time for name, time in model._get_ddp_logging_data().items() if name.endswith("_time")}


# LITERALINCLUDE END: distributed-times

if __name__ == "__main__":
    times = on_ranks(reported)
    for name, least in (("forward_compute", 40), ("backward_compute", 20), ("backward_comm", 0)):
        is_right = all(least * MILLISECOND < rank[f"avg_{name}_time"] < 10_000 * MILLISECOND for rank in times)
        print(f"{name} takes more than {least} ms, and less than 10 seconds: {is_right}")
