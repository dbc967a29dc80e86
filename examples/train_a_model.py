"""Trains a small convolutional network on images that it draws, on the device and on the CPU, and plots the losses.

Writes the picture of the page, docs/source/_static/train-a-model.svg, or the file given as argument.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import AdamW, Optimizer
from torch.utils.data import DataLoader, TensorDataset

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "source" / "_static" / "train-a-model.svg"
EPOCHS = 5
Batches = Iterable[Sequence[Tensor]]
Step = Callable[[nn.Module, Optimizer, Tensor, Tensor], Tensor]
Loader = DataLoader[tuple[Tensor, ...]]
Curves = tuple[list[float], list[float]]
INK, ACCENT = "#010101", "#020202"  # placeholders for the page's colors
# The same numbers give the same file, on every day and in every process.
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "", "path.simplify": False, "font.size": 12, "text.color": INK,
    "axes.labelcolor": INK, "axes.grid": True, "grid.color": INK, "grid.alpha": 0.15, "legend.frameon": False,
    "xtick.color": INK, "ytick.color": INK, "xtick.major.size": 0, "ytick.major.size": 0,
    **{f"axes.spines.{side}": False for side in ("left", "right", "top", "bottom")},
}  # fmt: skip
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)")


# LITERALINCLUDE START: train-a-model-data
KINDS = ("disc", "square", "triangle", "cross")


def drawings(count: int, seed: int) -> TensorDataset:
    """Draws noisy images of shape (1, 16, 16), each of one kind, at any place and angle."""
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
def batches(data: TensorDataset) -> Loader:
    """Splits data into batches of 64, in another order each epoch, but the same in every program."""
    order = torch.Generator().manual_seed(0)
    return DataLoader(data, batch_size=64, shuffle=True, generator=order, pin_memory=True)


# LITERALINCLUDE END: train-a-model-batches


# LITERALINCLUDE START: train-a-model-network
def network() -> nn.Module:
    """Returns a network that gives an image a score for each kind: two convolutional blocks, and one that decides."""
    torch.manual_seed(0)

    def block(inward: int, outward: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inward, outward, 3, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(outward), nn.GELU(), nn.AvgPool2d(2)]

    decide = [nn.Flatten(), nn.Linear(16 * 4 * 4, 32), nn.GELU(), nn.Linear(32, len(KINDS))]
    return nn.Sequential(*block(1, 8), *block(8, 16), *decide)


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
def train(model: nn.Module, batches: Batches, optimizer: Optimizer, step: Step = step) -> list[float]:
    """Makes a step with each batch. Returns the losses."""
    device = next(model.parameters()).device
    model.train()
    losses = []
    for batch in batches:
        images, kinds = (tensor.to(device, non_blocking=True) for tensor in batch)
        losses.append(step(model, optimizer, images, kinds))
    return torch.stack(losses).tolist()


# LITERALINCLUDE END: train-a-model-epoch


# LITERALINCLUDE START: train-a-model-evaluate
@torch.inference_mode()
def evaluate(model: nn.Module, data: TensorDataset) -> tuple[float, float]:
    """Returns the loss, and the share of images whose kind has the highest score."""
    device = next(model.parameters()).device
    model.eval()
    images, kinds = (tensor.to(device) for tensor in data.tensors)
    scores = model(images)
    right = (scores.argmax(1) == kinds).float().mean()
    return functional.cross_entropy(scores, kinds).item(), right.item()


# LITERALINCLUDE END: train-a-model-evaluate


# LITERALINCLUDE START: train-a-model-curves
def start(device: str) -> tuple[nn.Module, Loader, Optimizer]:
    """Creates what every training here starts with, always from the same numbers."""
    model = network().to(device)
    optimizer = AdamW(model.parameters(), lr=3e-3, fused=True)
    return model, batches(drawings(4096, seed=1)), optimizer


def curves(device: str) -> Curves:
    """Trains. Returns the loss of each step, and the loss on held-out images after each epoch."""
    model, loader, optimizer = start(device)
    kept_back = drawings(1000, seed=2)
    losses, unseen = [], []
    for _ in range(EPOCHS):
        losses += train(model, loader, optimizer)
        loss, right = evaluate(model, kept_back)
        unseen.append(loss)
        print(f"{device}, step {len(losses)}: {losses[-1]:.2f}; unseen: {loss:.2f}, {right:.0%} right")
    return losses, unseen


# LITERALINCLUDE END: train-a-model-curves


# LITERALINCLUDE START: train-a-model-plot
def plot(device: Curves, cpu: Curves) -> str:
    """Plots the losses of both. Returns an SVG in which a loss of 1 is 100 units high."""
    import matplotlib
    from matplotlib.figure import Figure

    steps = len(cpu[0])
    ends = [steps * (epoch + 1) // EPOCHS for epoch in range(EPOCHS)]
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(480 / 72, 240 / 72))
        axes = figure.add_axes((40 / 480, 45 / 240, 430 / 480, 160 / 240))
        axes.set(xlim=(0, steps), xlabel="step", ylim=(0, 1.6), ylabel="loss")
        axes.plot(device[0], color=ACCENT, linewidth=4, alpha=0.5, label="on the device")
        axes.plot(cpu[0], color=INK, linewidth=0.8, label="on the CPU")
        points = axes.plot(ends, device[1], "o", color=ACCENT, label="unseen images", clip_on=False)
        points[0].set_markeredgecolor(INK)
        figure.legend(loc="upper center", ncols=3)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata=NO_METADATA)
    return themed(file.getvalue())


# LITERALINCLUDE END: train-a-model-plot


def themed(svg: str) -> str:
    """Returns a picture that takes its colors and its font from the page around it."""
    svg = re.sub(r"<style.*?</style>|font-family: [^;]*; ", "", svg)
    svg = svg.replace('version="1.1"', 'font-family="system-ui, sans-serif" stroke-linejoin="round"')
    return svg.replace("xlink:href", "href").replace(INK, "currentColor").replace(ACCENT, "var(--guide-rule, #c2410c)")


# LITERALINCLUDE START: train-a-model-deviation
def deviation(one: str, other: str) -> float:
    """Returns the largest difference between the numbers of two pictures. Throws: if anything else differs."""
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
