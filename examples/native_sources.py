"""Where operators run, by operator and dtype, with native kernels."""

from __future__ import annotations

import torch

source = torch.openreg.kernel_source
for operator in ("aten::add.Tensor", "aten::mm.out", "aten::div.out", "aten::view", "aten::reshape", "aten::angle.out"):
    print(f"{operator:17} {source(operator)}")
for dtype in (torch.bfloat16, torch.complex64):
    print(f"aten::mm.out for {dtype}: {source('aten::mm.out', dtype)}")
