"""Compiled training: optimizer steps, random numbers, autocast and modes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it
from torch.utils.checkpoint import checkpoint

from tests.compile.compared import assert_same
from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.usefixtures("inductor")


def test_a_compiled_optimizer_trains_like_the_cpu() -> None:
    reference = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    model = copy.deepcopy(reference).to(LAST_DEVICE)
    compiled = torch.compile(model)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.1, foreach=True) for m in (reference, model)]
    steps = (optimizers[0].step, torch.compile(optimizers[1].step))
    x = torch.randn(4, 8)
    for _ in range(3):
        for each, data, step, optimizer in zip(
            (reference, compiled), (x, x.to(LAST_DEVICE)), steps, optimizers, strict=True
        ):
            optimizer.zero_grad()
            each(data).square().mean().backward()
            step()
    for parameter, expected in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(parameter.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("foreach", [False, True])
def test_an_optimizer_that_is_compiled_again_keeps_its_numbers_where_they_are(foreach: bool) -> None:
    parameters = [torch.ones(3, requires_grad=True), torch.ones(3, device=LAST_DEVICE, requires_grad=True)]
    optimizers = [torch.optim.NAdam([p], lr=0.1, foreach=foreach) for p in parameters]
    schedules = [torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5) for optimizer in optimizers]
    steps = (optimizers[0].step, torch.compile(optimizers[1].step, backend="aot_eager"))
    for number in range(4):
        for parameter, step, schedule in zip(parameters, steps, schedules, strict=True):
            parameter.grad = torch.full_like(parameter, number + 1.0)
            step()
            schedule.step()
    torch.testing.assert_close(parameters[1].detach().cpu(), parameters[0].detach())
    assert optimizers[1].state[parameters[1]]["step"].device.type == "cpu"


def test_random_numbers_follow_the_seed() -> None:
    compiled = torch.compile(lambda x: x + torch.rand_like(x), fullgraph=True)
    zeros = torch.zeros(1000, device=LAST_DEVICE)
    torch.manual_seed(3)
    first, second = compiled(zeros), compiled(zeros)
    torch.manual_seed(3)
    assert torch.equal(compiled(zeros), first)
    assert not torch.equal(first, second)
    assert 0 <= first.min().item() < 0.01 < 0.99 < first.max().item() < 1
    assert abs(first.mean().item() - 0.5) < 0.05


def test_fallback_random_gives_eager_numbers() -> None:
    def drop(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5) + torch.randn_like(x)

    compiled = torch.compile(drop, fullgraph=True, options={"fallback_random": True})
    ones = torch.ones(1000, device=LAST_DEVICE)
    torch.manual_seed(5)
    result = compiled(ones)
    torch.manual_seed(5)
    assert torch.equal(result, drop(ones))


@pytest.mark.parametrize("fallback_random", [False, True])
def test_dropout_drops_the_same_in_backward(fallback_random: bool) -> None:
    compiled = torch.compile(lambda x: F.dropout(x, 0.5) * 3, options={"fallback_random": fallback_random})
    ones = torch.ones(1000, device=LAST_DEVICE, requires_grad=True)
    result = compiled(ones)
    result.sum().backward()
    assert ones.grad is not None
    assert torch.equal(ones.grad, result.detach())
    assert 400 < (result == 0).sum().item() < 600


@pytest.mark.parametrize("device", ["openreg:0", LAST_DEVICE])
def test_a_checkpoint_drops_the_same_again(device: str) -> None:
    """With fallback_random, the state of the generator is saved and set: that of the tensor's device."""

    def drop(x: Tensor) -> Tensor:
        dropped: Tensor = checkpoint(lambda x: F.dropout(x.exp(), 0.5), x, use_reentrant=False) * 2
        return dropped

    compiled = torch.compile(drop, fullgraph=True, options={"fallback_random": True})
    ones = torch.ones(100, device=device, requires_grad=True)
    torch.manual_seed(5)
    result = compiled(ones)
    after = torch.rand(3, device=device)
    result.sum().backward()
    assert ones.grad is not None
    torch.testing.assert_close(ones.grad, result.detach())
    torch.manual_seed(5)
    torch.testing.assert_close(drop(ones.detach()), result.detach())
    assert torch.equal(torch.rand(3, device=device), after)


@pytest.mark.needs("two devices")
def test_checkpoints_on_two_devices() -> None:
    def drop(*each: Tensor) -> list[Tensor]:
        return [checkpoint(lambda x: F.dropout(x.exp(), 0.5), x, use_reentrant=False) * 2 for x in each]

    ones = [torch.ones(100, device=f"openreg:{index}", requires_grad=True) for index in range(2)]
    results = torch.compile(drop, backend="aot_eager_decomp_partition", fullgraph=True)(*ones)
    for x in ones:
        torch.rand(3, device=x.device)
    torch.autograd.backward([result.sum() for result in results])
    for x, result in zip(ones, results, strict=True):
        assert x.grad is not None
        torch.testing.assert_close(x.grad, result.detach())


def test_autocast_inside_a_graph() -> None:
    def cast(x: Tensor, weight: Tensor) -> Tensor:
        with torch.autocast("openreg", dtype=torch.bfloat16):
            return F.linear(x, weight).relu()

    x, weight = torch.randn(4, 8, device=LAST_DEVICE), torch.randn(3, 8, device=LAST_DEVICE)
    result = torch.compile(cast, fullgraph=True)(x, weight)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.cpu(), cast(x, weight).cpu())


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # PyTorch's own
def test_compiled_autograd() -> None:
    """The backward pass of an eager network, compiled as a whole."""
    reference = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    network = copy.deepcopy(reference).to(LAST_DEVICE)
    x = torch.randn(5, 4)
    reference(x).square().sum().backward()
    with torch._dynamo.compiled_autograd._enable(torch.compile(fullgraph=True)):
        network(x.to(LAST_DEVICE)).square().sum().backward()
    for ours, expected in zip(network.parameters(), reference.parameters(), strict=True):
        assert ours.grad is not None
        assert expected.grad is not None
        torch.testing.assert_close(ours.grad.cpu(), expected.grad)


def test_max_autotune() -> None:
    """It chooses among implementations, of which the device has one, and captures graphs (test_replay)."""
    assert_same(lambda x, w: (x @ w).relu(), torch.randn(33, 70), torch.randn(70, 4), mode="max-autotune")
