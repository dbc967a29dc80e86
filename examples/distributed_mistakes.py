"""Mistakes in the arguments of collectives: each raises at the call, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks


def _ones(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(sizes, dtype=dtype, device="openreg")


def _from_rank(root: int) -> dist.BroadcastOptions:
    options = dist.BroadcastOptions()
    options.rootRank = root
    return options


# LITERALINCLUDE START: distributed-mistakes
def mistakes(backend: Any) -> list[Callable[[], object]]:
    """Calls of the backend itself: the functions of `torch.distributed` would find some of the mistakes first."""
    one, pair, longer, integers = _ones(2), [_ones(2), _ones(2)], _ones(3), _ones(4, dtype=torch.int32)
    return [
        lambda: backend.broadcast(pair, _from_rank(0)),
        lambda: backend.broadcast([one], _from_rank(2)),
        lambda: backend.allreduce(pair),
        lambda: backend.allgather([pair], pair),
        lambda: backend.allgather([pair, pair], [one]),
        lambda: backend.allgather([[one]], [one]),
        lambda: backend.allgather([[one, longer]], [one]),
        lambda: backend.allgather([[one, one.int()]], [one]),
        lambda: backend._reduce_scatter_base(one, longer),
        lambda: backend.alltoall_base(_ones(4), integers, [], []),
        lambda: backend.alltoall_base(_ones(4), _ones(4), [2, 2, 0], []),
        lambda: backend.alltoall_base(_ones(4), _ones(4), [], [5, -1]),
        lambda: backend.alltoall([one], pair),
        lambda: backend.alltoall([one], [one]),
        lambda: backend.send([one], dist.get_rank(), 0),
        lambda: backend.send(pair, 1 - dist.get_rank(), 0),
        lambda: backend.recv(pair, 1 - dist.get_rank(), 0),
    ]


# LITERALINCLUDE END: distributed-mistakes


def messages() -> list[str]:
    """What each raises, and that the group goes on."""
    raised = []
    for mistake in mistakes(dist.distributed_c10d._get_default_group()._get_backend(torch.device("openreg"))):
        try:
            mistake()
        except (TypeError, ValueError) as error:
            raised.append(f"{type(error).__name__}: {str(error).split(': Gloo')[0]}")
    total = _ones(1)
    dist.all_reduce(total)
    return [*raised, f"afterwards: {total.item()}"]


if __name__ == "__main__":
    raised, by_other_rank = on_ranks(messages)
    assert raised == [each.replace("own 1, but got 1", "own 0, but got 0") for each in by_other_rank], by_other_rank
    for message in raised:
        print(message)
