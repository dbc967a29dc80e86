"""The values of OPENREG_NATIVE_KERNELS, and where a matrix product runs after each."""

from __future__ import annotations

import os

import torch

from torch_openreg._native import load_native_kernels

for value in ("perhaps", "auto", "on"):
    os.environ["OPENREG_NATIVE_KERNELS"] = value
    try:
        load_native_kernels()
        print(f"{value}: {torch.openreg.kernel_source('aten::mm.out')}")
    except ImportError as error:
        print(error)
