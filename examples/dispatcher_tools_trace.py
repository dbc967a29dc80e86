"""Runs two operators; started with TORCH_SHOW_DISPATCH_TRACE=1, a debug build of PyTorch would print every dispatch."""

from __future__ import annotations

import torch

x = torch.tensor([1.0, -2.0], device="openreg")
print((1 - x).abs().tolist())
