"""Small models, trained for a few steps: the losses are those of the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from accelerator_conformance.checks import chapter, level

pytestmark = chapter("train_a_model")


class Last(nn.Module):
    """A recurrent network, with an output layer for its last step."""

    def __init__(self, network: nn.RNNBase) -> None:
        super().__init__()
        self.network, self.output = network, nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the last step."""
        result: torch.Tensor = self.output(self.network(x)[0][:, -1])
        return result


class Language(nn.Module):
    """A tiny transformer over letters, whose input and output share their weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.output = nn.Linear(16, 11, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the next letter, at each position."""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        result: torch.Tensor = self.output(self.encoder(self.embedding(x), mask=mask, is_causal=True)).transpose(1, 2)
        return result


def perceptron() -> nn.Module:
    """Two layers."""
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))


def convolutional() -> nn.Module:
    """Convolutions, normalization and pooling."""
    features = (nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3))
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))


def inputs(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random inputs, and classes to be learned."""
    return torch.randn(6, *shape), torch.arange(6) % 3


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, torch.Tensor]]]] = {
    "perceptron": (perceptron, lambda: inputs(10)),
    "convolutional": (convolutional, lambda: inputs(1, 12, 12)),
    "lstm": (lambda: Last(nn.LSTM(5, 8, batch_first=True)), lambda: inputs(7, 5)),
    "gru": (lambda: Last(nn.GRU(5, 8, batch_first=True)), lambda: inputs(7, 5)),
    "transformer": (Language, lambda: (torch.arange(48).view(6, 8) % 11, (torch.arange(48) + 1).view(6, 8) % 11)),
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.005),
    "AdamW, foreach": lambda parameters: torch.optim.AdamW(parameters, lr=0.005, foreach=True),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.002),
}


def losses(
    model: nn.Module,
    data: tuple[torch.Tensor, torch.Tensor],
    make_optimizer: Callable[..., torch.optim.Optimizer],
    device: str,
) -> list[float]:
    """Trains, and returns the losses."""
    model = copy.deepcopy(model).to(device)
    x, target = (tensor.to(device) for tensor in data)
    optimizer = make_optimizer(model.parameters())
    seen = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


def compare(name: str, optimizer: str, device: str) -> None:
    """Trains one model on the device and on the CPU."""
    make_model, make_data = MODELS[name]
    torch.manual_seed(0)
    model, data = make_model(), make_data()
    expected = losses(model, data, OPTIMIZERS[optimizer], "cpu")
    seen = losses(model, data, OPTIMIZERS[optimizer], device)
    assert expected[-1] < expected[0]
    torch.testing.assert_close(
        torch.tensor(seen),
        torch.tensor(expected),
        rtol=1e-3,
        atol=1e-4,
        msg=lambda message: f"the losses are {seen}, on the CPU {expected}\n\n{message}",
    )


def test_perceptron_learns(device: str) -> None:
    """A network of two layers learns as on the CPU."""
    compare("perceptron", "SGD", device)


@level("usable")
# Two layers of the transformer share their weights, and the backend must keep these one tensor.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=chapter("autograd" if name == "transformer" else "nn_contracts"))
        for name in MODELS
        if name != "perceptron"
    ],
)
def test_model_learns(device: str, name: str) -> None:
    """Convolutions, recurrent cells and attention learn as on the CPU."""
    compare(name, "SGD", device)


@level("usable")
@chapter("optimizers")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizer(device: str, optimizer: str) -> None:
    """An optimizer takes the same steps as on the CPU."""
    compare("perceptron", optimizer, device)


@level("usable")
@chapter("memory")
def test_training_keeps_no_memory(device: str) -> None:
    """Each step leaves as much memory in use as the one before."""
    try:
        torch.accelerator.memory_allocated()
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        pytest.skip(f"not offered: {str(error).partition(chr(10))[0]}")
    model = perceptron().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(6, 10).to(device)
    used = []
    for _ in range(5):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        used.append(torch.accelerator.memory_allocated())
    assert used[1:] == used[1:2] * 4, f"the memory in use after each step: {used}"


@level("usable")
@chapter("host_memory")
def test_data_loader_with_workers(device: str) -> None:
    """Batches made by worker processes can be copied to the device."""
    loader = torch.utils.data.DataLoader(torch.arange(12.0).split(1), batch_size=4, num_workers=1)
    torch.ones(1, device=device)
    assert [batch.to(device).sum().item() for batch in loader] == [6, 22, 38]
