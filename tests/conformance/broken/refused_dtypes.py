"""Refuses float64 by its name in C++, complex64 by that in Python, and int16 by an error about something else."""

from typing import Any

import torch

from tests.conformance.broken.kernels import kernel

REFUSALS = {
    torch.float64: TypeError("this device has no Double"),
    torch.complex64: RuntimeError("this device has no torch.complex64"),
    torch.int16: RuntimeError("the device is lost"),
}


@kernel("empty_strided")
def empty_strided(size: list[int], stride: list[int], *, dtype: torch.dtype, **options: Any) -> torch.Tensor:
    if dtype in REFUSALS:
        raise REFUSALS[dtype]
    return torch.empty(size, dtype=dtype, **options)
