"""Mistakes that raise at the call, on every rank, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks


def _ones(count: int, dtype: torch.dtype = torch.float32, device: str = "openreg:0") -> torch.Tensor:
    return torch.ones(count, dtype=dtype, device=device)


# LITERALINCLUDE START: distributed-refused
MISTAKES: list[Callable[[], object]] = [
    lambda: dist.all_gather([_ones(2), _ones(2, device="openreg:1")], _ones(2)),
    lambda: dist.all_gather([_ones(2), _ones(2, device="cpu")], _ones(2)),
    lambda: dist.all_gather([_ones(2), _ones(3)], _ones(2)),
    lambda: dist.all_gather([_ones(2)], _ones(2)),
    lambda: dist.all_gather_single(_ones(5), _ones(2)),
    lambda: dist.reduce_scatter_single(_ones(2), _ones(5)),
    lambda: dist.all_to_all([_ones(1)], [_ones(1)]),
    lambda: dist.all_to_all([_ones(1), _ones(1)], [_ones(1)]),
    lambda: dist.all_to_all_single(_ones(2).sum(), _ones(2)),
    lambda: dist.all_to_all_single(_ones(2), _ones(2).sum()),
    lambda: dist.all_to_all_single(_ones(3), _ones(2)),
    lambda: dist.all_to_all_single(_ones(2), _ones(2), None, [2, 1]),
    lambda: dist.all_reduce(_ones(2, torch.bool), dist.ReduceOp.AVG),
]
# LITERALINCLUDE END: distributed-refused


def refusals() -> list[str]:
    """What each raises."""
    messages = []
    for mistake in MISTAKES:
        try:
            mistake()
        except (TypeError, ValueError) as error:
            messages.append(f"{type(error).__name__}: {str(error).split(': Gloo')[0]}")
    return messages


if __name__ == "__main__":
    raised, by_other_rank = on_ranks(refusals)
    assert raised == by_other_rank, by_other_rank
    for message in raised:
        print(message)
