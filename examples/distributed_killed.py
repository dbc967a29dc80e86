"""What the others see when a rank is killed, or does not come."""

from __future__ import annotations

import os
import re
import signal
import time

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks


# LITERALINCLUDE START: distributed-killed
def one_dies(victim: int) -> float:
    """The sum of a million numbers, in the middle of which one rank is killed."""
    tensor = torch.ones(1_000_000, device="openreg")
    work = dist.all_reduce(tensor, async_op=True)
    if dist.get_rank() == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    work.wait()
    return tensor.sum().item()  # NOT PROVEN: the wait raises


def one_is_late() -> str:
    """A rank comes after the timeout of the other."""
    if dist.get_rank() == 1:
        time.sleep(3)  # the timeout is 2 s
        return "slept"
    messages = []
    for _ in range(2):
        try:
            dist.all_reduce(torch.ones(3, device="openreg"))
        except dist.DistBackendError as error:
            messages.append(str(error).splitlines()[0])
    return "\n".join(messages)


# LITERALINCLUDE END: distributed-killed

if __name__ == "__main__":
    for rank, outcome in enumerate(on_ranks(one_dies, 1, size=3)):
        # Without what Gloo says of the connection.
        print(f"rank {rank}: {str(outcome).split(': [')[0]}")
    print(re.sub(r"\[/.*?\] ", "", on_ranks(one_is_late, seconds=2)[0]))
