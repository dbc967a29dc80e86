"""Whole models, trained some steps on the CPU and on the device with the same numbers: losses and parameters agree."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

STEPS = 8
Batch = tuple[Tensor, Tensor]


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inward, outward, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outward),
            nn.ReLU(inplace=True),
            nn.Conv2d(outward, outward, 3, padding=1, bias=False),
            nn.BatchNorm2d(outward),
        )
        self.shortcut = nn.Sequential(nn.Conv2d(inward, outward, 1, stride, bias=False), nn.BatchNorm2d(outward))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


def residual_network() -> nn.Module:
    stem = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)]
    return nn.Sequential(*stem, Residual(8, 8, 1), Residual(8, 16, 2), *head)


class Patches(nn.Module):
    """A small vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 16, 4, 4)
        self.first = nn.Parameter(torch.randn(1, 1, 16))
        self.places = nn.Parameter(torch.randn(1, 17, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 5))

    def forward(self, x: Tensor) -> Tensor:
        patches = self.cut(x).flatten(2).mT
        tokens = torch.cat([self.first.expand(len(x), -1, -1), patches], 1) + self.places
        scores: Tensor = self.head(self.layers(tokens)[:, 0])
        return scores


class Recurrent(nn.Module):
    """A language model whose output table is its input table."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 12)
        self.recurrent = kind(12, 12, num_layers=2, batch_first=True)
        self.write = nn.Linear(12, 20)
        self.write.weight = self.table.weight

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.write(self.recurrent(self.table(words))[0])
        return scores.transpose(1, 2)


class Causal(nn.Module):
    """A language model of masked attention, post-norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(20, 16), nn.Embedding(9, 16)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0, batch_first=True), 2)
        self.write = nn.Linear(16, 20, bias=False)
        self.write.weight = self.table.weight

    def forward(self, words: Tensor) -> Tensor:
        length = words.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=words.device)
        tokens = self.table(words) + self.places(torch.arange(length, device=words.device))
        scores: Tensor = self.write(self.layers(tokens, mask=mask, is_causal=True))
        return scores.transpose(1, 2)


def vectors() -> Batch:
    return torch.randn(16, 10), torch.randint(5, (16,))


def images() -> Batch:
    return torch.randn(6, 3, 16, 16), torch.randint(5, (6,))


def sentences() -> Batch:
    words = torch.randint(20, (4, 10))
    return words[:, :-1], words[:, 1:]


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Batch]]] = {
    "MLP": (lambda: nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 9), nn.Tanh(), nn.Linear(9, 5)), vectors),
    "LeNet": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(6, 8, 3), nn.Sigmoid(),
            nn.Flatten(), nn.Linear(288, 16), nn.Sigmoid(), nn.Linear(16, 5),
        ),
        images,
    ),
    "residual network": (residual_network, images),
    "vision transformer": (Patches, images),
    "LSTM": (lambda: Recurrent(nn.LSTM), sentences),
    "GRU": (lambda: Recurrent(nn.GRU), sentences),
    "causal transformer": (Causal, sentences),
}  # fmt: skip


def train(model: nn.Module, batches: list[Batch], optimizer: torch.optim.Optimizer) -> list[float]:
    """Trains in place. Returns the losses."""
    device = next(model.parameters()).device
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs.to(device)), targets.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def assert_close(model: nn.Module, expected: nn.Module, share: float) -> None:
    """Each parameter and buffer differs by at most this share of its largest number."""
    for (name, one), (_, other) in zip(model.state_dict().items(), expected.state_dict().items(), strict=True):
        difference = (one.cpu() - other).abs().max().item()
        assert difference <= share * max(other.abs().max().item(), 1e-3), (name, difference)


@pytest.mark.parametrize("name", MODELS)
def test_training_is_that_of_the_cpu(name: str) -> None:
    torch.manual_seed(0)
    make, draw = MODELS[name]
    expected, batch = make(), draw()
    model, batches = copy.deepcopy(expected), [batch] * STEPS
    ours = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)  # before the model is moved
    model.to("openreg")
    losses = train(model, batches, ours)
    theirs = train(expected, batches, torch.optim.SGD(expected.parameters(), lr=0.1, momentum=0.9))
    assert losses[-1] < losses[0]
    assert losses == pytest.approx(theirs, rel=1e-5)
    assert_close(model, expected, 1e-5)


@pytest.mark.parametrize(
    "name", [name for name in MODELS if name not in ("LeNet", "residual network", "vision transformer")]
)
def test_nothing_falls_back(name: str) -> None:
    torch.manual_seed(0)
    make, draw = MODELS[name]
    model = make().to("openreg")
    torch.openreg.reset_fallback_stats()
    train(model, [draw()] * 2, torch.optim.AdamW(model.parameters(), fused=True))
    assert torch.openreg.fallback_stats() == {}


def test_a_residual_network_in_channels_last() -> None:
    torch.manual_seed(0)
    expected, batch = residual_network(), images()
    model = copy.deepcopy(expected).to("openreg", memory_format=torch.channels_last)
    inputs, targets = batch[0].to(memory_format=torch.channels_last), batch[1]
    losses = train(model, [(inputs, targets)] * STEPS, torch.optim.SGD(model.parameters(), lr=0.1))
    assert losses == pytest.approx(
        train(expected, [batch] * STEPS, torch.optim.SGD(expected.parameters(), lr=0.1)), rel=1e-5
    )
    assert_close(model, expected, 1e-5)
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_mixed_precision_stays_near_float32(name: str, dtype: torch.dtype) -> None:
    """Losses within 3 percent of those in float32 on the CPU, over all steps."""
    torch.manual_seed(0)
    make, draw = MODELS[name]
    expected, batch = make(), draw()
    model = copy.deepcopy(expected).to("openreg")
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.05), torch.amp.GradScaler("openreg", init_scale=1024.0)
    inputs, targets = batch[0].to("openreg"), batch[1].to("openreg")
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("openreg", dtype=dtype):
            loss = functional.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert scaler.get_scale() == 1024.0
    theirs = train(expected, [batch] * STEPS, torch.optim.SGD(expected.parameters(), lr=0.05))
    assert losses == pytest.approx(theirs, rel=0.03)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
