"""Trains a network whose layers are graphed callables, between a loss and an optimizer that run as always."""

from __future__ import annotations

import copy
import os

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


# LITERALINCLUDE START: graph-callables-training
def block() -> nn.Module:
    """Twelve small layers, four of which have buffers."""
    layers = [kind() for _ in range(4) for kind in (lambda: nn.Linear(16, 16), lambda: nn.BatchNorm1d(16), nn.Tanh)]
    return nn.Sequential(nn.Linear(8, 16), *layers, nn.Linear(16, 1))


def trainer(model: nn.Module, device: str) -> Callable[[torch.Tensor], float]:
    """A training step, with a loss that the program looks at."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)

    def step(values: torch.Tensor) -> float:
        batch = values.to(device)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch), batch.sum(1, keepdim=True))
        loss.backward()
        if loss.item() > 0.01:
            optimizer.step()
        return loss.item()

    return step


def host_calls(work: Callable[[], object]) -> tuple[int, int]:
    """How often the host called the driver to launch or to copy, and how many kernels and copies the device ran."""
    activities = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
    with profile(activities=activities) as recorded:
        work()
        torch.accelerator.synchronize()
    events = recorded.events()
    calls = [event.name for event in events if event.name.startswith(("orLaunch", "orGraphLaunch", "orMem"))]
    return len(calls), sum(event.device_type.name == "OPENREG" for event in events)


def training_pass(model: nn.Module, batch: torch.Tensor) -> None:
    """Forward and backward."""
    model(batch).sum().backward()


def main() -> None:
    """Prints the losses on the device and on the CPU, an evaluation, and the calls of a pass."""
    torch.manual_seed(0)
    reference = block()
    launched, model = (copy.deepcopy(reference).to("openreg") for _ in range(2))
    graphed = torch.openreg.make_graphed_callables(model, (torch.zeros(16, 8, device="openreg"),))
    print("the same module:", graphed is model)

    steps = trainer(model, "openreg"), trainer(reference, "cpu")
    losses = [[step(values) for step in steps] for values in torch.randn(20, 16, 8)]
    print("first and last losses:", *(f"{here:.4f} {there:.4f}," for here, there in (losses[0], losses[-1])))
    pairs = zip(model.state_dict().values(), reference.state_dict().values(), strict=True)
    print("weights and buffers agree:", all(torch.allclose(a.cpu(), b, atol=1e-4) for a, b in pairs))

    few = torch.randn(3, 8)
    evaluated, expected = model.eval()(few.to("openreg")).cpu(), reference.eval()(few)
    print("evaluation, another size:", torch.allclose(evaluated, expected, atol=1e-4))

    batch = torch.randn(16, 8, device="openreg")
    for name, each in (("launched", launched), ("replayed", model.train())):
        each.zero_grad()
        calls, works = host_calls(partial(training_pass, each, batch))
        print(f"{name}: {calls} calls of the driver, {works} kernels and copies")


# LITERALINCLUDE END: graph-callables-training

if __name__ == "__main__":
    main()
