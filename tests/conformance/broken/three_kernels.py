"""Three kernels: one reads an invalid address, one hangs, one fails and leaves the device unusable."""

import ctypes
import threading

import torch

from tests.conformance.broken.kernels import kernel

_KERNEL_FAULT = 1  # orFault_t of openreg_faults.h


@kernel("amax")
def crash(*_arguments: object, **_options: object) -> torch.Tensor:
    raise AssertionError(ctypes.string_at(1))


@kernel("gelu")
def hang(_x: torch.Tensor, **_options: object) -> None:
    threading.Event().wait()


@kernel("cumsum")
def fail(x: torch.Tensor, _dim: int, **_options: object) -> torch.Tensor:
    assert ctypes.CDLL("libopenreg.so").orInjectFault(_KERNEL_FAULT, 0, 1) == 0
    return torch.ones_like(x)
