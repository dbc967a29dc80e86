"""Trains a small network on the CPU and on the device, and compares the losses."""

from __future__ import annotations

import tiny  # makes the device
import torch
from torch import nn


# LITERALINCLUDE START: one-file-train
def losses(device: str) -> list[float]:
    """The loss of each of twenty steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    inputs = torch.randn(64, 4)
    targets = inputs.sum(1, keepdim=True).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = []
    for _ in range(20):
        loss = (model(inputs.to(device)) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


on_cpu, on_tiny = losses("cpu"), losses("tiny")
print(f"from {on_tiny[0]:.3f} to {on_tiny[-1]:.3f}; the same as on the CPU: {on_tiny == on_cpu}")
# LITERALINCLUDE END: one-file-train
