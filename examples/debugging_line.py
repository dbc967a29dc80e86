"""A kernel fails, and the line of the program that the traceback shows depends on the launch mode."""

from __future__ import annotations

import ctypes
import traceback
from typing import Any

import torch


# LITERALINCLUDE START: debugging-line
def compute(x: torch.Tensor) -> Any:
    """Runs two kernels, the first of which fails, and a copy that waits for both."""
    positive = x.abs()
    result = positive + 1
    return result.tolist()


def main() -> None:
    """Prints the line of `compute` at which the failure is raised."""
    x = torch.ones(4, device="openreg")
    kernel_fault, device, count = 1, 0, 1  # orFaultKernel of openreg_faults.h
    status = ctypes.CDLL("libopenreg.so").orInjectFault(kernel_fault, device, count)
    assert status == 0
    try:
        compute(x)
    except torch.AcceleratorError as error:
        frames = traceback.extract_tb(error.__traceback__)
        print(next(frame.line for frame in frames if frame.name == "compute"))


# LITERALINCLUDE END: debugging-line


if __name__ == "__main__":
    main()
