"""Compares the results of the device with those of the CPU, as closely as the dtypes involved allow.

Integers and bools must be equal. The order of accumulation decides the last bits of a floating-point number, and
results computed from it inherit the difference: so each variable carries the coarsest dtype and the largest number
that it was computed from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from tests.fuzz.program import key

# The dtypes whose bits an integer of the same width may hold.
_READINGS = {
    torch.int16: (torch.half, torch.bfloat16),
    torch.uint16: (torch.half, torch.bfloat16),
    torch.int32: (torch.float,),
    torch.uint32: (torch.float,),
    torch.int64: (torch.double,),
    torch.uint64: (torch.double,),
}
# For each dtype, how far apart two results may be, relative to the largest number involved.
_SHARES = {
    torch.float16: 5e-3,
    torch.bfloat16: 4e-2,
    torch.float32: 2e-5,
    torch.complex32: 5e-3,
    torch.complex64: 2e-5,
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
}


@dataclass
class Noise:
    """How coarse and how large the numbers are that a variable was computed from."""

    share: float = 0.0
    largest: float = 1.0

    def merged(self, other: Noise) -> Noise:
        """The noise of both."""
        return Noise(max(self.share, other.share), max(self.largest, other.largest))


@dataclass
class NoiseOf:
    """The noise of each variable."""

    known: dict[str, Noise] = field(default_factory=dict)

    def spread(self, mentioned: Iterable[str], variables: Mapping[str, torch.Tensor]) -> None:
        """After a statement, every variable that it mentions, or that shares memory with one, may depend on all."""
        touched = [name for name in mentioned if name in variables]
        total = Noise()
        for name in touched:
            total = total.merged(self.known.get(name, Noise())).merged(_own(variables[name]))
        storages = {key(variables[name]) for name in touched}
        for name, tensor in variables.items():
            if key(tensor) in storages:
                self.known[name] = total

    def of(self, name: str) -> Noise:
        """The noise of one variable."""
        return self.known.get(name, Noise(2e-5))


def _own(tensor: torch.Tensor) -> Noise:
    share = _SHARES.get(tensor.dtype, 0.0)
    if not share or not tensor.numel():
        return Noise(share)
    sizes = tensor.detach().abs().double()
    largest = sizes.nan_to_num(0.0, 0.0, 0.0).max().item()
    return Noise(share, max(1.0, largest))


def difference(expected: Any, actual: Any, noise: Noise, *, values: bool = True, strides: bool = True) -> str | None:
    """What is wrong with a value of the device, if anything; without ``values`` only its form is compared."""
    if isinstance(expected, list | tuple):
        (expected, form), (actual, other) = tree_flatten(expected), tree_flatten(actual)
        if str(form) != str(other):
            return f"{other} instead of {form}"
        parts = (
            difference(*pair, noise, values=values, strides=strides) for pair in zip(expected, actual, strict=True)
        )
        return next((part for part in parts if part is not None), None)
    if isinstance(expected, torch.Tensor):
        if not isinstance(actual, torch.Tensor):
            return f"{type(actual).__name__} instead of a tensor"
        wrong = _form(expected, actual, strides)
        return _values(expected.detach(), actual.detach().cpu(), noise) if wrong is None and values else wrong
    if type(expected) is not type(actual):
        return f"{actual!r} instead of {expected!r}"
    if isinstance(expected, float | complex):
        return _values(torch.tensor(expected), torch.tensor(actual), noise) if values else None
    return None if expected == actual or not values else f"{actual!r} instead of {expected!r}"


def _form(expected: torch.Tensor, actual: torch.Tensor, strides: bool) -> str | None:
    for what in ("shape", "dtype", "layout", "requires_grad"):
        if getattr(expected, what) != getattr(actual, what):
            return f"{what} {getattr(actual, what)} instead of {getattr(expected, what)}"
    # A tensor with gaps is a view, or a part of what the kernel has computed, whose strides are the kernel's choice.
    # A tensor without elements has no order.
    is_whole = torch.ops.aten.is_non_overlapping_and_dense(expected) or expected._is_view()
    has_order = is_whole and expected.numel() > 0
    if strides and has_order and any(one != other for size, one, other in _axes(expected, actual) if size > 1):
        return f"stride {actual.stride()} instead of {expected.stride()}"
    return None


def _axes(expected: torch.Tensor, actual: torch.Tensor) -> Iterable[tuple[int, int, int]]:
    return zip(expected.shape, expected.stride(), actual.stride(), strict=True)


def _values(expected: torch.Tensor, actual: torch.Tensor, noise: Noise) -> str | None:
    if expected.layout is not torch.strided or not expected.numel():
        return None
    wide = torch.complex128 if expected.is_complex() else torch.float64
    if expected.is_floating_point() or expected.is_complex():
        noise = noise.merged(_own(expected))
        close = torch.isclose(
            actual.to(wide), expected.to(wide), rtol=noise.share, atol=noise.share * noise.largest, equal_nan=True
        )
    else:
        close = (actual == expected) | (_is_nan(actual) & _is_nan(expected))
    if bool(close.all()):
        return None
    worst = int((~close).flatten().nonzero()[0])
    here, there = actual.flatten()[worst].item(), expected.flatten()[worst].item()
    return f"{here} instead of {there} at element {worst} of {expected.numel()}"


def _is_nan(bits: torch.Tensor) -> torch.Tensor:
    """Where integers are the bits of a NaN, which are not unique: a program may read a number with `view(dtype)`."""
    found = torch.zeros_like(bits, dtype=torch.bool)
    for dtype in _READINGS.get(bits.dtype, ()):
        found |= bits.contiguous().view(dtype).isnan()
    return found


def is_finite(number: object) -> bool:
    """Whether a number is one that can be written down and computed with."""
    return isinstance(number, int | float) and math.isfinite(number)
