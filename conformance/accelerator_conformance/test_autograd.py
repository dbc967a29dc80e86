"""Gradients: they reach their leaves, on the device, with the values of the CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch.utils.checkpoint import checkpoint

from accelerator_conformance.checks import chapter, level

pytestmark = chapter("autograd")

# One of each kind of kernel: elementwise, reduction, view, product, index, and composite.
FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "add": lambda x: x + 2 * x,
    "mul": lambda x: x * x,
    "exp": torch.exp,
    "relu": torch.relu,
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(),
    "amax": lambda x: x.amax(1),
    "matmul": lambda x: x @ x.t(),
    "transpose and reshape": lambda x: x.t().reshape(-1),
    "slice": lambda x: x[1:, ::2],
    "index": lambda x: x[torch.tensor([1, 1, 0], device=x.device)],
    "cat": lambda x: torch.cat([x, x.exp()]),
    "where": lambda x: torch.where(x > 0, x, x * 3),
    "softmax": lambda x: x.softmax(1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "gelu": F.gelu,
    "cross_entropy": lambda x: F.cross_entropy(x, torch.tensor([1, 0, 2], device=x.device)),
    "cumsum": lambda x: x.cumsum(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "to half": lambda x: x.half().float(),
    "to the CPU": lambda x: x.cpu() * 2,
    "copy_": lambda x: torch.zeros_like(x).copy_(x),
    "in place": lambda x: x.clone().mul_(3).add_(x),
    "embedding": lambda x: F.embedding(torch.tensor([2, 0, 2], device=x.device), x),
}


def of_both(device: str, function: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Any, Any, Any, Any]:
    """Result and gradient, on the device and on the CPU, for the same weights of the result."""
    ended: list[Any] = []
    for place in (device, "cpu"):
        torch.manual_seed(0)
        x = torch.randn(3, 4).to(place).requires_grad_()
        result = function(x)
        weights = torch.randn(result.shape).to(result.device)
        if result.requires_grad:
            (result * weights).sum().backward()
        ended += [result, x.grad]
    return tuple(ended)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_of(device: str, name: str) -> None:
    """The gradient of an operator is that of the CPU, and on the device."""
    result, gradient, expected_result, expected_gradient = of_both(device, FUNCTIONS[name])
    assert result.requires_grad, f"{name}: the result requires no gradient: the operator was called below autograd"
    assert gradient is not None, f"{name}: no gradient came to the leaf"
    assert gradient.device.type == device, f"{name}: the gradient is on {gradient.device}"
    torch.testing.assert_close(result.detach().cpu(), expected_result.detach())
    torch.testing.assert_close(gradient.cpu(), expected_gradient)


def test_gradients_accumulate(device: str) -> None:
    """A second backward pass adds to the gradient of the first."""
    x = torch.ones(3, device=device, requires_grad=True)
    for _ in range(2):
        (x * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4, 4, 4]


def test_tied_weights_stay_tied(device: str) -> None:
    """`.to()` keeps one parameter that two modules share, and the one that an optimizer holds."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    model[1].weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to(device)
    assert model[1].weight is model[0].weight, "two modules shared a weight before .to(), and no longer do"
    assert model[0].weight.device.type == device
    before = model[0].weight.detach().cpu().clone()
    model(torch.ones(2, 4, device=device)).sum().backward()
    optimizer.step()
    assert not torch.equal(model[0].weight.detach().cpu(), before), (
        "an optimizer made before .to() trains other tensors"
    )


def test_second_derivative(device: str) -> None:
    """A gradient of a gradient."""
    x = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [6, 12]


def test_no_grad(device: str) -> None:
    """no_grad, inference_mode and detach make results without a graph."""
    x = torch.ones(2, device=device, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        assert (x * 2).is_inference()
    assert not x.detach().requires_grad
    assert x.detach().data_ptr() == x.data_ptr()


def test_change_of_a_saved_tensor_is_noticed(device: str) -> None:
    """Modifying a tensor that backward needs is an error, not a wrong gradient."""
    x = torch.ones(2, device=device, requires_grad=True)
    result = x.exp()
    loss = result.sum()
    result.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_hooks_of_tensors(device: str) -> None:
    """A hook sees the gradient, on the device, and may replace it."""
    seen: list[str] = []
    x = torch.ones(2, device=device, requires_grad=True)

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        seen.append(gradient.device.type)
        return gradient * 5

    x.register_hook(hook)
    (x * 2).sum().backward()
    assert x.grad is not None
    assert (seen, x.grad.tolist()) == ([device], [10, 10])


def test_function_in_python(device: str) -> None:
    """A torch.autograd.Function receives and returns tensors of the device."""

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            context.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> torch.Tensor:
            (x,) = context.saved_tensors
            assert x.device.type == gradients[0].device.type == device
            result: torch.Tensor = gradients[0] * 2 + x
            return result

    x = torch.ones(2, device=device, requires_grad=True)
    Twice.apply(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3]


@level("usable")
def test_threads(device: str) -> None:
    """Several threads run backward passes of their own concurrently."""
    gradients: dict[int, list[float]] = {}

    def work(number: int) -> None:
        x = torch.full((4,), float(number), device=device, requires_grad=True)
        for _ in range(10):
            x.grad = None
            x.pow(2).sum().backward()
        assert x.grad is not None
        gradients[number] = x.grad.tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gradients == {number: [2.0 * number] * 4 for number in range(4)}


@level("usable")
@chapter("frontend")
def test_checkpoint_repeats_random_numbers(device: str) -> None:
    """torch.utils.checkpoint recomputes a part with the same dropout mask."""
    masks: list[torch.Tensor] = []

    def part(x: torch.Tensor) -> torch.Tensor:
        result = F.dropout(x, 0.5)
        masks.append(result.detach().cpu() != 0)
        return result.exp()

    x = torch.ones(1000, device=device, requires_grad=True)
    checkpoint(part, x, use_reentrant=False).sum().backward()
    assert len(masks) == 2
    assert torch.equal(*masks), "the part was run again with other random numbers: has the module _initialized?"


@level("usable")
@chapter("stream")
def test_backward_on_the_stream_of_the_forward_pass(device: str, busy: Callable[[float], None]) -> None:
    """A backward operator runs on the stream of its forward operator, and the caller's stream waits for it."""
    streams: list[torch.Stream] = []

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 3

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> torch.Tensor:
            streams.append(torch.accelerator.current_stream())
            busy(0.1)
            return gradients[0] * 3

    x = torch.ones(1000, device=device, requires_grad=True)
    torch.accelerator.synchronize()
    side = torch.Stream(f"{device}:0")
    with side:
        loss = Slow.apply(x).sum()
    torch.accelerator.current_stream().wait_stream(side)
    loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0] * 1000, "the caller's stream does not wait for the backward pass"
    assert streams == [side], "a backward operator runs on another stream than its forward operator"


@level("usable")
def test_vmap_and_jacobian(device: str) -> None:
    """torch.func works on tensors of the device."""
    x = torch.arange(1.0, 4.0, device=device)
    jacobian = torch.func.jacrev(lambda y: y**2)(x)
    assert jacobian.tolist() == torch.diag(2 * torch.arange(1.0, 4.0)).tolist()
    assert torch.vmap(torch.dot)(x.expand(2, 3), x.expand(2, 3)).tolist() == [14, 14]
