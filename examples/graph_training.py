"""Trains a network with one graph per step, and compares it with the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


# LITERALINCLUDE START: graph-training
def trainer(device: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor, Callable[[], torch.Tensor]]:
    """A network, the tensors that hold its batch and targets, and a step that reads them."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batch, target = torch.zeros(8, 4, device=device), torch.zeros(8, 1, device=device)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(batch), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, batch, target, step


def main() -> None:
    """Prints the losses of both, and how far the weights are apart after 20 steps."""
    data = torch.randn(20, 8, 4, generator=torch.Generator().manual_seed(1))
    reference, host_batch, host_target, host_step = trainer("cpu")
    model, batch, target, step = trainer("openreg")
    stream, graph = torch.Stream(), torch.accelerator.Graph()
    losses = []
    for number, values in enumerate(data):
        for there in (batch, host_batch):
            there.copy_(values)
        for there in (target, host_target):
            there.copy_(values.sum(1, keepdim=True))
        expected = host_step()
        if number < 2:  # warm-up: the optimizer creates its state
            with stream:
                loss = step()
        elif number == 2:
            with stream, graph:
                loss = step()
        if number >= 2:
            graph.replay()
        torch.accelerator.synchronize()
        losses.append((round(loss.item(), 4), round(expected.item(), 4)))
    print("loss on the device, on the CPU:", losses[0], losses[2], losses[-1])
    pairs = zip(model.parameters(), reference.parameters(), strict=True)
    print("weights agree:", all(torch.allclose(one.cpu(), other, atol=1e-5) for one, other in pairs))


# LITERALINCLUDE END: graph-training

if __name__ == "__main__":
    main()
