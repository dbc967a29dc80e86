"""A model that is slow on the device, and its parts that run on the CPU, found by dispatcher_tools_fallbacks.py."""

from __future__ import annotations

import torch
from dispatcher_tools_fallbacks import Fallbacks, report, watching  # type: ignore[import-not-found]
from torch.nn import functional


# LITERALINCLUDE START: dispatcher-tools-slow-model
class Mixer(torch.nn.Module):
    """Three layers over the spectrum of a sequence; each measures the distance of its input from 16 centers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3 * 16, 16) for _ in range(3))
        self.centres = torch.nn.Buffer(torch.randn(16, 16))
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of a batch, of shape (batch, length, 16)."""
        x = torch.fft.fft(x, dim=1, norm="ortho").real
        for layer in self.layers:
            neighbours = functional.unfold(x.mT.unsqueeze(-1), (3, 1), padding=(1, 0)).mT
            x = x + torch.cdist(layer(neighbours), self.centres)
        scores: torch.Tensor = self.head(x.mean(1))
        return scores


# LITERALINCLUDE END: dispatcher-tools-slow-model


def training_step(model: torch.nn.Module) -> torch.Tensor:
    """Forward and backward for 8 sequences of length 10."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 10, 16).to("openreg"), torch.arange(8).to("openreg") % 4
    loss = functional.cross_entropy(model(x), y)
    loss.backward()
    return loss


if __name__ == "__main__":
    model = Mixer().to("openreg")
    with watching() as fallbacks:
        training_step(model)
    report(fallbacks.calls)
    with Fallbacks() as blind:
        training_step(model)
    print("without anomaly mode, no line for", *sorted({site.operator for site in blind.calls if not site.line}))
