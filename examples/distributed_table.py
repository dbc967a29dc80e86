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


def _move(tensor: Tensor) -> Tensor:
    output = tensor.new_empty(2 * tensor.numel())
    dist.all_gather_single(output, tensor)
    dist.broadcast(tensor, src=0)
    dist.all_to_all_single(output, output.clone())
    return output


def _reduce(operation: dist.ReduceOp.RedOpType) -> Call:
    def call(tensor: Tensor) -> Tensor:
        dist.all_reduce(tensor, operation)
        return tensor

    return call


CALLS: dict[str, Call] = {
    "moves": _move,
    **{name: _reduce(getattr(dist.ReduceOp, name)) for name in ("SUM", "AVG", "PRODUCT", "MAX", "BOR")},
}


# LITERALINCLUDE START: distributed-table
def tried() -> list[list[str]]:
    """A row for each group of dtypes: yes, no, or some of them."""
    rows = []
    for title, dtypes in DTYPES.items():
        row = [title]
        for call in CALLS.values():
            taken = {_is_taken(call, dtype) for dtype in dtypes}
            row.append("some" if len(taken) > 1 else "yes" if taken.pop() else "no")
        rows.append(row)
    return rows


def _is_taken(call: Call, dtype: torch.dtype) -> bool:
    try:
        call(torch.ones(2).to(dtype).to("openreg")).cpu()
    except (TypeError, ValueError):  # raised before anything is sent, on every rank
        return False
    return True


# LITERALINCLUDE END: distributed-table

if __name__ == "__main__":
    print(f"{'':<33}" + " ".join(f"{name:<7}" for name in CALLS).rstrip())
    for row in on_ranks(tried)[0]:
        print(f"{row[0]:<33}" + " ".join(f"{cell:<7}" for cell in row[1:]).rstrip())
