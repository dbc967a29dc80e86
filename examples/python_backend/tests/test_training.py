"""Models: the device computes what the CPU computes."""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any

import pytest
import torch
from torch import nn

DEVICES = ("remote:0", "remote:1") if os.environ["TORCH_REMOTE_BASE"] == "compiled" else ("remote:0",)
OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, fused=True),
    "AdamW each": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=False),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01),
}


def trained(device: str, optimizer: str, model: nn.Module, steps: int = 10) -> list[torch.Tensor]:
    """The losses and the parameters after some steps."""
    model = model.to(device)
    inputs, targets = torch.randn(16, 3).to(device), torch.randn(16, 1).to(device)
    chosen, losses = OPTIMIZERS[optimizer](model.parameters()), []
    for _ in range(steps):
        chosen.zero_grad()
        loss = (model(inputs) - targets).square().mean()
        loss.backward()
        chosen.step()
        losses.append(loss.detach().cpu())
    return [*losses, *(parameter.detach().cpu() for parameter in model.parameters())]


def mlp() -> nn.Module:
    """A small perceptron."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_has_the_numbers_of_the_cpu(optimizer: str, device: str) -> None:
    """Every loss and parameter is bitwise equal."""
    on_device, on_cpu = trained(device, optimizer, mlp()), trained("cpu", optimizer, mlp())
    assert all(torch.equal(one, other) for one, other in zip(on_device, on_cpu, strict=True))


class Images(nn.Module):
    """Layers that PyTorch treats differently on accelerators: convolution, normalization, dropout, attention, cells."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.transposed = nn.ConvTranspose2d(4, 4, 2)
        self.norm = nn.BatchNorm2d(4)
        self.recurrent = nn.LSTM(4, 4, batch_first=True)
        self.gated = nn.GRU(4, 4, batch_first=True)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.end = nn.Sequential(nn.LayerNorm(4), nn.Dropout(0.0), nn.Linear(4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From 16 rows of 3 numbers to 16 numbers."""
        x = self.norm(self.transposed(self.convolution(x.reshape(16, 1, 1, 3)))).mean(2).transpose(1, 2)
        x = self.gated(self.recurrent(x)[0])[0]
        x = self.attention(x, x, x, need_weights=False)[0]
        result: torch.Tensor = self.end(x.mean(1))
        return result


def test_layers_that_accelerators_have_for_themselves() -> None:
    """They train as on the CPU, except for rounding where PyTorch takes another path on accelerators."""
    torch.manual_seed(0)
    model = Images()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    on_device = trained("remote", "SGD", model)
    torch.manual_seed(0)
    again = Images()
    again.load_state_dict(state)
    on_cpu = trained("cpu", "SGD", again)
    for one, other in zip(on_device, on_cpu, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.compiled
def test_backward_runs_on_a_thread_for_each_device() -> None:
    """PyTorch's reference backend in Python cannot do this, as it has no streams."""
    names: dict[int, set[str]] = {}

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:
            assert gradient.device.index == torch.remote.current_device()
            names.setdefault(gradient.device.index, set()).add(threading.current_thread().name)
            return gradient * 2

    leaf = torch.ones(2, device="remote:0", requires_grad=True)
    other = Watched.apply(Watched.apply(leaf).to("remote:1"))
    other.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [4, 4]
    assert len(names[0] | names[1]) == 2
    assert not names[0] & names[1]


def test_shared_weights_stay_shared() -> None:
    """Moving a model keeps the identity of its parameters."""
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    optimizer = torch.optim.SGD(first.parameters(), lr=1.0)
    model = nn.Sequential(first, second).to("remote")
    assert model[0].weight is model[1].weight is optimizer.param_groups[0]["params"][0]
    assert model[0].weight.device.type == "remote"


def test_autocast_and_scaler() -> None:
    """Matrix products are in half precision; the weights and the rest are not."""
    model = nn.Linear(3, 2).to("remote")
    scaler = torch.amp.GradScaler("remote", init_scale=8.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("remote", dtype=torch.bfloat16):
        output = model(torch.ones(4, 3, device="remote"))
        assert output.dtype == torch.bfloat16
        assert output.softmax(0).dtype == torch.float32
        loss = output.float().sum()
    before = model.weight.detach().clone()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(before, model.weight)


def test_compiled_model() -> None:
    """torch.compile with PyTorch's tracing, and the device's operators."""
    model = mlp().to("remote")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(model, backend="aot_eager")
        x = torch.randn(4, 3).to("remote")
        compiled(x).sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    model(x).sum().backward()
    assert len(gradients) == 4
    for one, parameter in zip(gradients, model.parameters(), strict=True):
        assert parameter.grad is not None
        assert torch.equal(one.cpu(), parameter.grad.cpu())


def test_data_loader_with_workers() -> None:
    """Workers are forked and do not use the device; the loop moves their batches to it."""
    torch.zeros(1, device="remote")
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)
        assert [batch.to("remote").sum().item() for (batch,) in loader] == [6, 22]
