"""Trains a small convolutional network on images that it draws, on the device and on the CPU, and plots the losses.

Writes the picture of the page, docs/source/_static/train-a-model.svg, or the file that is named as argument.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import matplotlib
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import AdamW, Optimizer
from torch.utils.data import DataLoader, TensorDataset

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "source" / "_static" / "train-a-model.svg"
EPOCHS = 5
Step = Callable[[nn.Module, Optimizer, Tensor, Tensor], Tensor]
Curves = tuple[list[float], list[float]]
INK, ACCENT = "#010101", "#020202"  # stand for the colours of the page
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)")


# LITERALINCLUDE START: train-a-model-data
KINDS = ("disc", "square", "triangle", "cross")


def drawings(count: int, seed: int) -> TensorDataset:
    """Draws noisy images of shape (1, 16, 16), each of one kind, in any size, place and angle; and says which kinds."""
    generator = torch.Generator().manual_seed(seed)

    def between(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, 1, 1, generator=generator)

    places = torch.linspace(-1, 1, 16)
    x, y = places - between(-0.2, 0.2), places.unsqueeze(1) - between(-0.2, 0.2)
    angle, size = between(0, torch.pi), between(0.5, 0.8)
    x, y = angle.cos() * x + angle.sin() * y, angle.cos() * y - angle.sin() * x
    longer, shorter = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    disc, square = x.hypot(y) < size, longer < 0.9 * size
    triangle = torch.maximum(-y, 0.866 * x.abs() + 0.5 * y) < 0.6 * size
    cross = (longer < size) & (shorter < 0.3 * size)
    kinds = torch.randint(len(KINDS), (count,), generator=generator)
    images = torch.stack([disc, square, triangle, cross])[kinds, torch.arange(count)]
    noise = 0.3 * torch.randn(count, 16, 16, generator=generator)
    return TensorDataset((images + noise).unsqueeze(1), kinds)


# LITERALINCLUDE END: train-a-model-data


# LITERALINCLUDE START: train-a-model-batches
def batches(data: TensorDataset) -> DataLoader[tuple[Tensor, ...]]:
    """Batches of 64 in pinned memory, in an order that is another one in each epoch and the same in each program."""
    return DataLoader(data, 64, shuffle=True, generator=torch.Generator().manual_seed(0), pin_memory=True)


# LITERALINCLUDE END: train-a-model-batches


# LITERALINCLUDE START: train-a-model-network
def network(activation: type[nn.Module] = nn.GELU, pool: type[nn.Module] = nn.AvgPool2d) -> nn.Module:
    """Gives each image four scores, one for each kind: two blocks that look, and two layers that decide."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 8, 5, padding=2, bias=False), nn.BatchNorm2d(8), activation(), pool(2)),
        nn.Sequential(nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), activation(), pool(2)),
        nn.Sequential(nn.Flatten(), nn.Linear(16 * 4 * 4, 32), activation(), nn.Linear(32, len(KINDS))),
    )


# LITERALINCLUDE END: train-a-model-network


# LITERALINCLUDE START: train-a-model-step
def step(model: nn.Module, optimizer: Optimizer, images: Tensor, kinds: Tensor) -> Tensor:
    """Makes one step. Returns the loss before it, which stays on the device."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(images), kinds)
    loss.backward()
    optimizer.step()
    return loss.detach()


# LITERALINCLUDE END: train-a-model-step


# LITERALINCLUDE START: train-a-model-epoch
def train(
    model: nn.Module, loader: Iterable[tuple[Tensor, ...]], optimizer: Optimizer, step: Step = step
) -> list[float]:
    """Makes a step with each batch. Returns the losses."""
    device = next(model.parameters()).device
    model.train()
    losses = []
    for images, kinds in loader:
        losses.append(step(model, optimizer, images.to(device, non_blocking=True), kinds.to(device, non_blocking=True)))
    return torch.stack(losses).tolist()


# LITERALINCLUDE END: train-a-model-epoch


# LITERALINCLUDE START: train-a-model-evaluate
@torch.inference_mode()
def evaluate(model: nn.Module, data: TensorDataset) -> tuple[float, float]:
    """Returns the loss, and the share of images whose kind is recognised."""
    device = next(model.parameters()).device
    model.eval()
    images, kinds = (tensor.to(device) for tensor in data.tensors)
    scores = model(images)
    recognised = (scores.argmax(1) == kinds).float().mean()
    return functional.cross_entropy(scores, kinds).item(), recognised.item()


# LITERALINCLUDE END: train-a-model-evaluate


# LITERALINCLUDE START: train-a-model-curves
def start(device: str) -> tuple[nn.Module, Optimizer, DataLoader[tuple[Tensor, ...]]]:
    """What every training here begins with, always from the same numbers."""
    model = network().to(device)
    return model, AdamW(model.parameters(), lr=3e-3, fused=True), batches(drawings(4096, seed=1))


def curves(device: str) -> Curves:
    """Trains on a device. Returns the loss of each step, and after each epoch the loss on images not trained with."""
    model, optimizer, loader = start(device)
    held_out = drawings(1000, seed=2)
    losses, unseen = [], []
    for _ in range(EPOCHS):
        losses += train(model, loader, optimizer)
        loss, recognised = evaluate(model, held_out)
        unseen.append(loss)
        print(f"{device}, step {len(losses)}: loss {losses[-1]:.2f}, unseen images {loss:.2f}, {recognised:.0%} right")
    return losses, unseen


# LITERALINCLUDE END: train-a-model-curves


# LITERALINCLUDE START: train-a-model-plot
def plot(device: Curves, cpu: Curves) -> str:
    """Draws the losses of both. Returns an SVG, 100 of whose units are a loss of one."""
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "", "path.simplify": False, "font.size": 12}):
        figure = Figure(figsize=(480 / 72, 240 / 72))
        axes = figure.add_axes((40 / 480, 45 / 240, 430 / 480, 160 / 240), xlim=(0, len(cpu[0])), ylim=(0, 1.6))
        axes.plot(device[0], color=ACCENT, linewidth=4, alpha=0.5, label="on the device")
        axes.plot(cpu[0], color=INK, linewidth=0.8, label="on the CPU")
        ends = [(epoch + 1) * len(cpu[0]) // EPOCHS for epoch in range(EPOCHS)]
        axes.plot(ends, device[1], "o", color=ACCENT, markeredgecolor=INK, clip_on=False, label="unseen images")
        axes.grid(color=INK, alpha=0.15)
        axes.spines[:].set_visible(False)
        axes.tick_params(colors=INK, length=0)
        axes.set_xlabel("step", color=INK)
        axes.set_ylabel("loss", color=INK)
        figure.legend(loc="upper center", ncols=3, frameon=False, labelcolor=INK)
        file = io.StringIO()
        figure.savefig(
            file, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
        )
    return themed(file.getvalue())


# LITERALINCLUDE END: train-a-model-plot


def themed(svg: str) -> str:
    """Returns a picture that takes its colours and its font from the page around it."""
    svg = re.sub(r"<style.*?</style>|font-family: [^;]*; ", "", svg)
    svg = svg.replace('version="1.1"', 'font-family="system-ui, sans-serif" stroke-linejoin="round"')
    return svg.replace("xlink:href", "href").replace(INK, "currentColor").replace(ACCENT, "var(--guide-rule, #c2410c)")


# LITERALINCLUDE START: train-a-model-deviation
def deviation(one: str, other: str) -> float:
    """Returns by how much numbers of two pictures differ at most. Throws: ``ValueError`` if anything else differs."""
    parts, others = NUMBER.split(one), NUMBER.split(other)
    if parts[::2] != others[::2]:
        raise ValueError("the pictures differ in more than their numbers")
    return max(abs(float(a) - float(b)) for a, b in zip(parts[1::2], others[1::2], strict=True))


# LITERALINCLUDE END: train-a-model-deviation


def main(picture: Path = PICTURE) -> None:
    """Trains twice and draws."""
    picture.write_text(plot(curves("openreg"), curves("cpu")), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
