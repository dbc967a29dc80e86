"""The same model on the CPU and on the device, trained on the same data: for tests and measurements."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

DEVICE = "openreg"
STEPS = 8
Batch = dict[str, Tensor]


def classified(model: nn.Module, batch: Batch) -> Tensor:
    """The cross entropy of the model's scores for the inputs."""
    return functional.cross_entropy(model(batch["inputs"]), batch["targets"])


@dataclass(frozen=True)
class Subject:
    """A model, its data, and its loss. Model and data are drawn with the CPU's generator."""

    make: Callable[[], nn.Module]
    draw: Callable[[], Batch]
    loss: Callable[[nn.Module, Batch], Tensor] = classified


class Training:
    """A model and its optimizer on a device, with one batch that every step uses."""

    def __init__(self, subject: Subject, model: nn.Module, batch: Batch, device: str) -> None:
        self.subject, self.model = subject, model
        # Before the model is moved, which must keep its parameters.
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        model.to(device)
        self.batch = {name: tensor.to(device) for name, tensor in batch.items()}

    def step(self) -> Tensor:
        """One step. Returns the loss before it, without waiting for the device."""
        self.optimizer.zero_grad()
        loss = self.subject.loss(self.model, self.batch)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def losses(self) -> list[float]:
        """The losses of all steps."""
        return [self.step().item() for _ in range(STEPS)]


def pair(subject: Subject) -> tuple[Training, Training]:
    """The training on the CPU and the one on the device, from the same start."""
    torch.manual_seed(0)
    model, batch = subject.make(), subject.draw()
    # A parameter that starts at zero consists of its gradients. Some of those are zero up to rounding, such as that of
    # the attention's key bias, and leave nothing to compare.
    for parameter in model.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.1)
    twin = copy.deepcopy(model)
    return Training(subject, model, batch, "cpu"), Training(subject, twin, batch, DEVICE)


def largest_difference(model: nn.Module, expected: nn.Module) -> tuple[float, str]:
    """The largest difference of a parameter or buffer, relative to the tensor's largest number, and its name."""
    differences = []
    for (name, one), (_, other) in zip(model.state_dict().items(), expected.state_dict().items(), strict=True):
        difference = ((one.cpu() - other).abs().max() / other.abs().max()).item()
        differences.append((math.inf if math.isnan(difference) else difference, name))  # max would pass over a NaN
    return max(differences)


def mixed_precision_losses(training: Training, dtype: torch.dtype) -> list[float]:
    """The losses of all steps under autocast, with scaled gradients."""
    scaler = torch.amp.GradScaler(DEVICE, init_scale=1024.0)
    losses = []
    for _ in range(STEPS):
        training.optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=dtype):
            loss = training.subject.loss(training.model, training.batch)
        scaler.scale(loss).backward()
        scaler.step(training.optimizer)
        scaler.update()
        losses.append(loss.item())
    assert scaler.get_scale() == 1024.0, "a gradient has overflowed"
    return losses
