"""Draws numbers in a small and in a large kernel, which the launch mode places on different threads."""

from __future__ import annotations

import torch

torch.manual_seed(42)
small = torch.rand(3, device="openreg")
large = torch.empty(100_000, dtype=torch.int64, device="openreg").random_(1000)
print([round(value, 4) for value in small.tolist()], large.cpu().sum().item())
print("next position:", torch.openreg.default_generators[0].get_offset())
