"""Automatic mixed precision: what autocast casts, and gradient scaling."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from accelerator_conformance.checks import chapter, level, not_offered

pytestmark = [chapter("amp"), level("usable")]


@pytest.fixture
def offered(module: Any) -> list[torch.dtype]:
    """The dtypes that the device offers for autocast."""
    if not hasattr(module, "get_amp_supported_dtype"):
        not_offered(f"{module.__name__} has no get_amp_supported_dtype, which torch.autocast asks for")
    return list(module.get_amp_supported_dtype())


@pytest.fixture(params=[torch.float16, torch.bfloat16], ids=str)
def dtype(request: pytest.FixtureRequest, offered: list[torch.dtype]) -> torch.dtype:
    """A 16-bit dtype that the device offers for autocast."""
    asked: torch.dtype = request.param
    if asked not in offered:
        not_offered(f"get_amp_supported_dtype does not name {asked}")
    return asked


def test_is_available(device: str, offered: list[torch.dtype]) -> None:
    """torch.autocast is on for the device, in each dtype that it offers."""
    assert torch.amp.is_autocast_available(device)
    assert offered, "get_amp_supported_dtype names no dtype"
    for dtype in offered:
        with torch.autocast(device, dtype):
            assert torch.is_autocast_enabled(device), f"get_amp_supported_dtype names {dtype}, and autocast stays off"
            assert torch.get_autocast_dtype(device) == dtype


@pytest.mark.parametrize("name", ["matmul", "linear", "conv2d", "softmax", "sum", "layer_norm", "add", "cat"])
def test_dtype_of(name: str, device: str, dtype: torch.dtype) -> None:
    """Autocast runs products in 16 bits, sums and exponentials in float32, and mixed arguments in the widest dtype."""
    functional = torch.nn.functional
    x, image = torch.ones(4, 4, device=device), torch.ones(1, 1, 4, 4, device=device)
    half = x.to(dtype)
    run, expected = {
        "matmul": (lambda: x @ x, dtype),
        "linear": (lambda: functional.linear(x, x), dtype),
        "conv2d": (lambda: functional.conv2d(image, image), dtype),
        "softmax": (lambda: half.softmax(0), torch.float32),
        "sum": (lambda: half.sum(), torch.float32),
        "layer_norm": (lambda: functional.layer_norm(half, (4,)), torch.float32),
        "add": (lambda: half + x, torch.float32),
        "cat": (lambda: torch.cat([half, x]), torch.float32),
    }[name]
    with torch.autocast(device, dtype):
        seen = run().dtype
    assert seen == expected, f"{name} gives {seen} under autocast: is it registered for AutocastPrivateUse1?"
    with torch.autocast(device, dtype), torch.autocast(device, enabled=False):
        assert (x @ x).dtype == torch.float32, "autocast(enabled=False) inside of autocast has no effect"


def test_operators_that_take_functions(device: str, dtype: torch.dtype) -> None:
    """Operators that take functions, such as torch.cond, let autocast through to the operators inside."""
    x = torch.ones(4, 4, device=device)
    with torch.autocast(device, dtype):
        try:
            seen = torch.ops.higher_order.cond(True, lambda x: x @ x, lambda x: x @ x, (x,)).dtype
        except NotImplementedError as error:
            if "HigherOrderOperator" not in str(error):
                raise  # an operator inside: the other checks of this area say what is missing
            raise AssertionError(
                f"{error}: these operators are Python's, and have a list of keys that they let through, in torch._ops; "
                "a fallthrough that a library registers does not apply to them"
            ) from None
    assert seen == dtype, f"a product in a branch of cond gives {seen} under autocast"


def test_gradients_under_autocast(device: str, dtype: torch.dtype) -> None:
    """Parameters in float32 get gradients in float32, near those without autocast."""
    torch.manual_seed(0)
    model, x = torch.nn.Linear(16, 4).to(device), torch.randn(8, 16).to(device)
    model(x).square().mean().backward()
    expected = model.weight.grad
    model.weight.grad = None
    with torch.autocast(device, dtype):
        output = model(x)
        loss = output.float().square().mean()
    loss.backward()
    assert output.dtype == dtype
    assert expected is not None
    assert model.weight.grad is not None
    assert model.weight.grad.dtype == torch.float32
    torch.testing.assert_close(model.weight.grad.cpu(), expected.cpu(), rtol=0.05, atol=0.05)


@pytest.fixture
def scaler(device: str) -> torch.amp.GradScaler:
    """A gradient scaler for the device."""
    return torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)


def test_scaler_scales_and_unscales(device: str, scaler: torch.amp.GradScaler) -> None:
    """The loss is scaled, and the optimizer sees unscaled gradients."""
    weight = torch.nn.Parameter(torch.ones(3, device=device))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    loss = (weight * 2).sum()
    scaled = scaler.scale(loss)
    assert scaled.item() == 6 * 1024
    scaled.backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [-1, -1, -1]
    assert scaler.get_scale() == 1024


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_scaler_leaves_out_a_bad_step(device: str, scaler: torch.amp.GradScaler, bad: float) -> None:
    """A step with an infinite or NaN gradient is skipped, and the scale is halved."""
    weight = torch.nn.Parameter(torch.ones(3, device=device))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler.scale((weight * torch.tensor([1.0, bad, 1.0], device=device)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1, 1, 1], "a step with an infinite gradient was made"
    assert scaler.get_scale() == 512


def test_scaler_grows(device: str, scaler: torch.amp.GradScaler) -> None:
    """After `growth_interval` good steps, the scale is doubled."""
    weight = torch.nn.Parameter(torch.ones(3, device=device))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 2048
