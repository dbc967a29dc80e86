"""Values as Python expressions that evaluate to them."""

from __future__ import annotations

import math
from typing import Any

import torch


class Unwritable(Exception):
    """A value has no Python expression."""


def written(value: Any) -> str:
    """A value as an expression, tensors on the device ``d0``. Throws: ``Unwritable``."""
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout | bool | int | str | None):
        return repr(value)
    if isinstance(value, float | complex):
        return _number(value)
    if isinstance(value, list | tuple):
        parts = ", ".join(map(written, value))
        return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' if len(value) == 1 else ''})"
    if isinstance(value, slice) or value is Ellipsis:
        return repr(value)
    raise Unwritable(type(value).__name__)


def _number(value: float | complex) -> str:
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    return repr(value) if math.isfinite(value) or math.isnan(value) else f"{'-' * (value < 0)}inf"


def _tensor(tensor: torch.Tensor) -> str:
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg() or tensor.requires_grad:
        raise Unwritable(str(tensor.layout))
    where = f"dtype={tensor.dtype}, device=d0"
    if not tensor.numel():
        return f"torch.zeros({tuple(tensor.shape)}, {where})"
    if tensor.is_contiguous():
        return f"torch.tensor({_nested(tensor.tolist())}, {where})"
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    flat = tensor.as_strided((span,), (1,)).tolist()
    return f"torch.tensor({_nested(flat)}, {where}).as_strided({tuple(tensor.shape)}, {tensor.stride()})"


def _nested(value: Any) -> str:
    return f"[{', '.join(map(_nested, value))}]" if isinstance(value, list) else written(value)
