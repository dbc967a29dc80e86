"""Fills of dense tensors and of views with gaps, by the driver and by a kernel, compared with the CPU's."""

from __future__ import annotations

import torch

torch.openreg.reset_fallback_stats()
VIEWS = (lambda x: x.t(), lambda x: x[::2, 1:], lambda x: x[:0])
for dtype, value in (
    (torch.bool, True),
    (torch.float16, 0.1),
    (torch.float32, -2.5),
    (torch.complex128, 1 - 2j),
):
    same = []
    for view in VIEWS:
        expected, here = torch.zeros(5, 6, dtype=dtype), torch.zeros(5, 6, dtype=dtype, device="openreg:1")
        view(expected).fill_(value)
        view(here).fill_(value)
        same.append(torch.equal(here.cpu(), expected))
    print(f"{dtype}:", *same)

half = torch.zeros(2, dtype=torch.float16, device="openreg")
try:
    half.fill_(1e5)
except RuntimeError as error:
    print("too large for one of several:", error)
print("of one alone:", half[0].fill_(1e5).item())
print("fell back:", sorted(torch.openreg.fallback_stats()))
