"""What a process group and its operations tell a program, and what becomes of an operation when its process ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks
from torch_openreg import _C


# LITERALINCLUDE START: distributed-members-asked
def asked() -> list[Any]:
    """Asks the backend of the group, an operation, and who sent a message."""
    backend = dist.group.WORLD._get_backend(torch.device("openreg"))
    backend.set_timeout(timedelta(seconds=10))
    backend._set_sequence_number_for_group()
    tensor = torch.full((2,), float(dist.get_rank()), device="openreg")
    dist.all_reduce(tensor)
    dist.all_reduce(torch.ones(1, dtype=torch.complex64, device="openreg"))
    message = torch.zeros(1, device="openreg")
    sender = dist.recv(message) if dist.get_rank() == 0 else dist.send(message, 0)
    return [backend.name(), tensor.tolist(), sender, backend._get_sequence_number_for_group()]


def ended() -> str:
    """Ends the backends, as the end of the process does. Rank 0 waits for an operation; rank 1 begins one later."""
    tensor = torch.ones(2, device="openreg")
    pending = [dist.all_reduce(tensor, async_op=True)] if dist.get_rank() == 0 else []
    _C._end_staged_backends()
    try:
        for work in pending or [dist.all_reduce(tensor, async_op=True)]:
            work.wait()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "no error"  # NOT PROVEN: both raise


# LITERALINCLUDE END: distributed-members-asked

if __name__ == "__main__":
    for answers in on_ranks(asked):
        print(*answers)
    for outcome in on_ranks(ended, seconds=5):
        print(outcome)
