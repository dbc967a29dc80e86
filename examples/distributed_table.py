"""Which collective takes which dtype: each is tried on two ranks, and compared with the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from examples.distributed_ranks import on_ranks

DTYPES = {
    "float16 to float64, bfloat16": [torch.float16, torch.bfloat16, torch.float32, torch.float64],
    "uint8, int8, int32, int64": [torch.uint8, torch.int8, torch.int32, torch.int64],
    "bool": [torch.bool],
    "complex64, complex128": [torch.complex64, torch.complex128],
    "int16, uint16 to uint64, float8": [
        torch.int16, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2,
    ],
}  # fmt: skip
Call = Callable[[Tensor], Tensor]
Both = Callable[[Tensor, Tensor], Tensor]


def _numbers(dtype: torch.dtype, rank: int) -> Tensor:
    """Four numbers: both ranks have one, neither has, or one of them has; so they are as bools, too."""
    return torch.tensor([[2, 0, 0, 3], [3, 0, 4, 0]][rank]).to(dtype)


def _move(tensor: Tensor) -> Tensor:
    gathered, exchanged = tensor.new_empty(2, len(tensor)), tensor.new_empty(2, len(tensor))
    dist.all_gather_single(gathered, tensor)
    dist.all_to_all_single(exchanged, tensor.expand(2, -1))
    dist.broadcast(tensor, src=1)
    return torch.cat([gathered, exchanged, tensor[None]])


def _reduce(operation: dist.ReduceOp | dist.ReduceOp.RedOpType) -> Call:
    def call(tensor: Tensor) -> Tensor:
        dist.all_reduce(tensor, operation)
        return tensor

    return call


def _average(one: Tensor, other: Tensor) -> Tensor:
    return torch.div(one + other, 2, rounding_mode=None if one.is_floating_point() or one.is_complex() else "trunc")


# What is called on the ranks, and what it does to the tensors of both, by a function of the CPU.
CALLS: dict[str, tuple[Call, Both]] = {
    "moves": (_move, lambda one, other: torch.stack([one, other, one, other, other])),
    "SUM": (_reduce(dist.ReduceOp.SUM), torch.add),
    "AVG": (_reduce(dist.ReduceOp.AVG), _average),
    "PREMUL": (_reduce(dist._make_nccl_premul_sum(torch.tensor(0.5))), lambda one, other: one / 2 + other / 2),
    "PRODUCT": (_reduce(dist.ReduceOp.PRODUCT), torch.mul),
    "MAX": (_reduce(dist.ReduceOp.MAX), torch.maximum),
    "BOR": (_reduce(dist.ReduceOp.BOR), torch.bitwise_or),
}


# LITERALINCLUDE START: distributed-table
def tried() -> list[list[str]]:
    """A row for each group of dtypes: yes, no, or some of them."""
    rows = []
    for title, dtypes in DTYPES.items():
        row = [title]
        for call, expected in CALLS.values():
            taken = {_is_taken(call, expected, dtype) for dtype in dtypes}
            row.append("some" if len(taken) > 1 else "yes" if taken.pop() else "no")
        rows.append(row)
    return rows


def _is_taken(call: Call, expected: Both, dtype: torch.dtype) -> bool:
    try:
        result = call(_numbers(dtype, dist.get_rank()).to("openreg")).cpu()
    except (TypeError, ValueError):  # raised before anything is sent, on every rank
        return False
    assert torch.equal(result, expected(_numbers(dtype, 0), _numbers(dtype, 1))), (dtype, result)
    return True


# LITERALINCLUDE END: distributed-table

if __name__ == "__main__":
    print(f"{'':<33}" + " ".join(f"{name:<7}" for name in CALLS).rstrip())
    table, by_other_rank = on_ranks(tried)
    assert table == by_other_rank, by_other_rank
    for row in table:
        print(f"{row[0]:<33}" + " ".join(f"{cell:<7}" for cell in row[1:]).rstrip())
