"""A network trained by two processes, and by one process on the CPU."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from examples.distributed_ranks import on_ranks

STEPS = 40


def network() -> nn.Module:
    """The same initial weights everywhere."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


# LITERALINCLUDE START: distributed-train
def train(model: nn.Module, device: str, rank: int, size: int) -> tuple[list[float], list[float]]:
    """Returns the loss of each step on this rank's rows, and the parameters afterwards."""
    optimizer = torch.optim.AdamW(model.parameters(), 0.03)
    losses = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step % 4)
        batch = torch.randn(32, 8, generator=generator).chunk(size)[rank].to(device)
        loss = (model(batch) - batch.sum(1, keepdim=True).tanh()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, nn.utils.parameters_to_vector(model.parameters()).tolist()


def on_the_device() -> tuple[list[float], list[float]]:
    """Every rank has half of each batch. DDP averages the gradients."""
    model = DistributedDataParallel(network().to("openreg"))
    return train(model, "openreg", dist.get_rank(), dist.get_world_size())


# LITERALINCLUDE END: distributed-train

if __name__ == "__main__":
    (losses, parameters), (other_losses, other_parameters) = on_ranks(on_the_device)
    reference_losses, reference = train(network(), "cpu", 0, 1)
    mean = [(a + b) / 2 for a, b in zip(losses, other_losses, strict=True)]
    print(f"loss: {mean[0]:.4f} -> {mean[-1]:.4f}; one process on the CPU: {reference_losses[-1]:.4f}")
    print("both ranks have the same parameters:", parameters == other_parameters)
    difference = max(abs(a - b) for a, b in zip(parameters, reference, strict=True))
    print("largest difference from the CPU's below 1e-6:", difference < 1e-6)
