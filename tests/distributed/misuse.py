"""Calls that must raise on every rank, with the type and a part of the message."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist


def _ones(*shape: int, dtype: torch.dtype = torch.float32, device: str = "openreg") -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, device=device)


def _gradient_of_a_sum() -> torch.Tensor:
    x = _ones(4).requires_grad_()
    return torch.autograd.grad(x.sum(), x)[0]


def _gather(*outputs: torch.Tensor) -> None:
    size = dist.get_world_size()
    dist.all_gather((list(outputs) * size)[:size], _ones(2, device="openreg:0"))


CASES: dict[str, tuple[Callable[[], object], str, str]] = {
    "int16": (
        lambda: dist.all_reduce(_ones(2, dtype=torch.int16)),
        "TypeError",
        "all_reduce: SUM of Short is not supported: Gloo reduces uint8",
    ),
    "float8": (
        lambda: dist.all_reduce(_ones(2).to(torch.float8_e4m3fn)),
        "TypeError",
        "all_reduce: SUM of Float8_e4m3fn is not supported",
    ),
    "bitwise": (
        lambda: dist.all_reduce(_ones(2), dist.ReduceOp.BAND),
        "TypeError",
        "all_reduce: BAND of Float is not supported",
    ),
    "bool average": (
        lambda: dist.all_reduce(_ones(2, dtype=torch.bool), dist.ReduceOp.AVG),
        "TypeError",
        "all_reduce: AVG of Bool is not supported",
    ),
    "complex product": (
        lambda: dist.reduce(_ones(2, dtype=torch.complex64), 0, dist.ReduceOp.PRODUCT),
        "TypeError",
        "reduce: PRODUCT of ComplexFloat is not supported",
    ),
    "send to a rank that does not exist": (
        lambda: dist.send(_ones(2), dist.get_world_size()),
        "ValueError",
        "send: expected a rank from 0 to ",
    ),
    "receive from a negative rank": (
        lambda: dist.recv(_ones(2), -1),
        "ValueError",
        "recv: expected a rank from 0 to ",
    ),
    "two devices": (
        lambda: _gather(_ones(2, device="openreg:0"), _ones(2, device="openreg:1")),
        "ValueError",
        "all_gather: expected tensors on one device, but got openreg:0 and openreg:1",
    ),
    "host and device": (
        lambda: _gather(_ones(2, device="openreg:0"), _ones(2, device="cpu")),
        "ValueError",
        "all_gather: expected tensors on openreg, but got one on cpu",
    ),
    "size of an output": (
        lambda: _gather(_ones(3, device="openreg:0")),
        "ValueError",
        "all_gather: expected tensors of 2 elements, but got one of 3",
    ),
    "dtype of an output": (
        lambda: dist.all_gather_single(_ones(2 * dist.get_world_size(), dtype=torch.int32), _ones(2)),
        "TypeError",
        "all_gather_single: expected one dtype, but got Int and Float",
    ),
    "size of the whole": (
        lambda: dist.all_gather_single(_ones(7), _ones(2)),
        "ValueError",
        "processes, but got 7",
    ),
    "a dimension to split": (
        lambda: dist.all_to_all_single(_ones(), _ones()),
        "ValueError",
        "all_to_all_single: a tensor without dimensions cannot be split",
    ),
    "rows": (
        lambda: dist.all_to_all_single(_ones(6), _ones(6), [6] * dist.get_world_size(), None),
        "ValueError",
        "numbers of rows with the sum 6, but got [6, 6",
    ),
    "rows for too few processes": (
        lambda: dist.all_to_all_single(_ones(6), _ones(6), [6], None),
        "ValueError",
        "numbers of rows with the sum 6, but got [6]",
    ),
    "less than no rows": (
        lambda: dist.all_to_all_single(_ones(6), _ones(6), None, [7, -1] + [0] * (dist.get_world_size() - 2)),
        "ValueError",
        "numbers of rows with the sum 6, but got [7, -1",
    ),
    "rows that cannot be split": (
        lambda: dist.all_to_all_single(_ones(7), _ones(7)),
        "ValueError",
        "all_to_all_single: 7 rows cannot be split equally among",
    ),
    "parts of a sum": (
        lambda: dist.reduce_scatter_single(_ones(2), _ones(7)),
        "ValueError",
        "reduce_scatter_single: expected an input of",
    ),
    "a result that is expanded": (
        lambda: dist.all_reduce(_ones().expand(4)),
        "ValueError",
        "all_reduce: elements of a result share memory, as those of an expanded tensor or of a sum's gradient do, "
        "so it cannot be written; pass tensor.contiguous(), and use that one",
    ),
    "a gradient that is expanded": (
        lambda: dist.all_reduce(_gradient_of_a_sum()),
        "ValueError",
        "all_reduce: elements of a result share memory",
    ),
    "a large result that is expanded": (
        lambda: dist.all_reduce(_ones().expand(1 << 18)),
        "ValueError",
        "all_reduce: elements of a result share memory",
    ),
    "a large output that is expanded": (
        lambda: dist.all_gather_single(_ones().expand(dist.get_world_size() << 18), _ones(1 << 18)),
        "ValueError",
        "all_gather_single: elements of a result share memory",
    ),
}


def run(name: str) -> None:
    """Makes one of the mistakes."""
    CASES[name][0]()
