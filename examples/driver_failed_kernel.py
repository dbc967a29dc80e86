"""Where the failure of a kernel is raised: run it with OPENREG_LAUNCH set to auto, async and inline."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import torch


def attempt(what: str, call: Callable[[], object]) -> None:
    """Makes a call and prints how it ends: for an error, what the driver says about it."""
    try:
        call()
    except torch.AcceleratorError as error:
        print(f"   {what}: {str(error).partition('(')[2].partition(';')[0]}")
    else:
        print(f"   {what}: no error")


def main() -> None:
    """Makes the next kernel fail, and shows which calls report it."""
    tensor = torch.ones(2, device="openreg")
    driver = ctypes.CDLL("libopenreg.so")  # the one that the backend has loaded
    kernel_fault, device, count = 1, 0, 1
    error = driver.orInjectFault(kernel_fault, device, count)
    assert error == 0
    print(os.environ["OPENREG_LAUNCH"])
    attempt("launch", tensor.abs)
    attempt("next launch", tensor.abs)
    attempt("synchronize", torch.accelerator.synchronize)
    attempt("after that", tensor.abs)
    attempt("other device", torch.ones(2, device="openreg:1").abs)


if __name__ == "__main__":
    main()
