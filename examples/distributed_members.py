"""What a process group and its operations tell a program, also when they fail."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks


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


def refused() -> list[str]:
    """The errors of rank 0: after an abort, after the end of rank 1, after that, and after a shutdown."""
    if dist.get_rank() == 1:
        time.sleep(1)
        os._exit(3)
    backend = dist.group.WORLD._get_backend(torch.device("openreg"))
    errors = [error(backend.abort), error(), error()]
    backend.shutdown()
    return [*errors, error()]


def error(between: Callable[[], object] = lambda: None) -> str:
    """The error of a collective, between whose call and wait something happens."""
    try:
        work = dist.all_reduce(torch.ones(2, device="openreg"), async_op=True)
        between()
        work.wait()
    except RuntimeError as raised:
        return str(raised).splitlines()[0]
    return "no error"  # NOT PROVEN: each of them raises


# LITERALINCLUDE END: distributed-members-asked

if __name__ == "__main__":
    for answers in on_ranks(asked):
        print(*answers)
    errors, ended = on_ranks(refused)
    print(*errors, ended, sep="\n")
