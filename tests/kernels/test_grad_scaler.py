"""GradScaler on the device: unscaling with the check for infinities, the scale, skipped steps, messages."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.runtime.busy import assert_queued

pytestmark = [
    pytest.mark.usefixtures("nothing_falls_back"),
    pytest.mark.skipif(
        "aten::_amp_update_scale_" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
        reason="this build has no kernels",
    ),
]
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
unscale = torch._amp_foreach_non_finite_check_and_unscale_
update = torch._amp_update_scale_


def number(value: float, device: str = "openreg", dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.full((), value, device=device, dtype=dtype)


LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "number": lambda: torch.randn(()),
    "row": lambda: torch.randn(70_000),
    "transposed": lambda: torch.randn(3, 4).t(),
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "every second": lambda: torch.randn(6, 8)[::2, 1::2],
    "empty": lambda: torch.randn(0, 3),
}


@pytest.mark.parametrize("found", [None, torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unscale(dtype: torch.dtype, found: float | None) -> None:
    bases = [make().to(dtype) for make in LAYOUTS.values()]
    if found is not None:
        bases[2][1, 1] = found
    results = []
    for device in ("openreg", "cpu"):
        gradients = [torch.empty_strided(t.shape, t.stride(), dtype=dtype, device=device).copy_(t) for t in bases]
        found_inf = number(0.0, device)
        assert unscale(gradients, found_inf, number(0.125, device)) is None
        results.append([*gradients, found_inf])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=0, equal_nan=True)
        assert one.stride() == other.stride()
    assert results[0][-1].item() == (found is not None)


def test_what_lies_between_the_elements_of_a_gradient_is_left_alone() -> None:
    base = torch.ones(4, 4, device="openreg")
    unscale([base[::2, ::2]], number(0.0), number(0.5))
    expected = torch.ones(4, 4)
    expected[::2, ::2] = 0.5
    assert torch.equal(base.cpu(), expected)


def test_a_list_of_several_dtypes() -> None:
    gradients = [torch.full((3,), 8.0, device="openreg", dtype=dtype) for dtype in FLOATS]
    unscale(gradients, number(0.0), number(0.25))
    assert [gradient.tolist() for gradient in gradients] == [[2.0] * 3] * 4


def test_it_is_never_reset_here() -> None:
    """found_inf is set if an infinity or a NaN is found, and is otherwise left unchanged."""
    found_inf = number(1.0)
    unscale([torch.ones(2, device="openreg")], found_inf, number(1.0))
    assert found_inf.item() == 1.0


def test_an_empty_list() -> None:
    found_inf = number(0.0)
    unscale([], found_inf, number(0.5))
    assert found_inf.item() == 0.0


def test_one_element_in_any_shape() -> None:
    gradient, found_inf = torch.full((2,), torch.inf, device="openreg"), torch.zeros(1, 1, device="openreg")
    unscale([gradient], found_inf, torch.ones(1, device="openreg"))
    assert found_inf.tolist() == [[1.0]]


@pytest.mark.parametrize("interval", [1, 3])
def test_update_scale(interval: int) -> None:
    """A skipped step halves the scale; `interval` steps in a row that are not skipped double it."""
    states = []
    for device in ("openreg", "cpu"):
        scale, tracker, seen = number(8.0, device), number(0, device, torch.int32), []
        for found in (0, 0, 1, 0, 0, 0, 0, 2, 0):
            returned = update(scale, tracker, number(found, device), 2.0, 0.5, interval)
            assert returned is scale
            seen.append((scale.item(), tracker.item()))
        states.append(seen)
    assert states[0] == states[1]


def test_the_scale_stays_finite() -> None:
    scale, tracker = number(3e38), number(0, dtype=torch.int32)
    update(scale, tracker, number(0.0), 2.0, 0.5, 1)
    assert scale.item() == torch.tensor(3e38).item()
    assert tracker.item() == 0


@pytest.mark.needs("queue")
def test_they_are_queued() -> None:
    gradient, found_inf, inverse = torch.ones(4, device="openreg"), number(0.0), number(0.5)
    scale, tracker = number(2.0), number(0, dtype=torch.int32)

    def step() -> None:
        unscale([gradient], found_inf, inverse)
        update(scale, tracker, found_inf, 2.0, 0.5, 2)

    assert_queued(step)
    assert gradient.tolist() == [0.25] * 4
    assert (scale.item(), tracker.item()) == (4.0, 0)


def ones(*sizes: int, device: str = "openreg", dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(*sizes, device=device, dtype=dtype)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: unscale([ones(2)], number(0.0), number(1.0, "cpu")),
            RuntimeError,
            "inv_scale must be on openreg:0, not on cpu",
        ),
        pytest.param(
            lambda: unscale([ones(2)], number(0.0, "openreg:1"), number(1.0)),
            RuntimeError,
            "found_inf must be on openreg:0, not on openreg:1",
            marks=pytest.mark.needs("two devices"),
        ),
        pytest.param(
            lambda: unscale([ones(2), ones(2, device="openreg:1")], number(0.0), number(1.0)),
            RuntimeError,
            "one of the gradients must be on openreg:0, not on openreg:1",
            marks=pytest.mark.needs("two devices"),
        ),
        (
            lambda: unscale([ones(2), torch.ones(())], number(0.0), number(1.0)),
            RuntimeError,
            "one of the gradients must be on openreg:0, not on cpu",
        ),
        (
            lambda: unscale([ones(2)], number(0.0, "cpu"), number(1.0)),
            RuntimeError,
            "found_inf must be on openreg:0, not on cpu",
        ),
        (
            lambda: unscale([ones(2)], ones(2), number(1.0)),
            RuntimeError,
            r"found_inf must be a 1-element tensor, not one of shape \[2\]",
        ),
        (
            lambda: unscale([ones(2)], number(0.0), ones(0)),
            RuntimeError,
            r"inv_scale must be a 1-element tensor, not one of shape \[0\]",
        ),
        (
            lambda: unscale([ones(2)], number(0.0), number(1.0, dtype=torch.float64)),
            RuntimeError,
            "inv_scale must be of dtype Float, not Double",
        ),
        (
            lambda: unscale([ones(2)], number(0, dtype=torch.bool), number(1.0)),
            RuntimeError,
            "found_inf must be of dtype Float, not Bool",
        ),
        (
            lambda: unscale([ones(2), ones(2, dtype=torch.int32)], number(0.0), number(1.0)),
            NotImplementedError,
            "not implemented for 'Int'",
        ),
        (
            lambda: unscale([ones(2, dtype=torch.complex64)], number(0.0), number(1.0)),
            NotImplementedError,
            "not implemented for 'ComplexFloat'",
        ),
        (
            lambda: unscale([ones(1).expand(3)], number(0.0), number(1.0)),
            RuntimeError,
            "more than one element of the written-to tensor refers to a single memory location",
        ),
        (
            lambda: update(number(1.0), number(0), number(0.0), 2.0, 0.5, 1),
            RuntimeError,
            "growth_tracker must be of dtype Int, not Float",
        ),
        pytest.param(
            lambda: update(number(1.0), number(0, "openreg:1", torch.int32), number(0.0), 2.0, 0.5, 1),
            RuntimeError,
            "growth_tracker must be on openreg:0, not on openreg:1",
            marks=pytest.mark.needs("two devices"),
        ),
        (
            lambda: update(number(1.0, "cpu"), number(0, dtype=torch.int32), number(0.0), 2.0, 0.5, 1),
            RuntimeError,
            "the scale must be on openreg:0, not on cpu",
        ),
        (
            lambda: update(ones(2), number(0, dtype=torch.int32), number(0.0), 2.0, 0.5, 1),
            RuntimeError,
            r"the scale must be a 1-element tensor, not one of shape \[2\]",
        ),
        (
            lambda: update(number(1.0), number(0, dtype=torch.int32), number(0.0, "cpu"), 2.0, 0.5, 1),
            RuntimeError,
            "found_inf must be on openreg:0, not on cpu",
        ),
    ],
)
def test_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
    assert (ones(2) + 1).tolist() == [2.0, 2.0]  # the device still works


def trained(
    device: str, optimizer: Callable[..., Any], overflow_at: int, **options: Any
) -> tuple[list[Tensor], list[float]]:
    """The weights after some steps, and the scale after each step; in one step the gradients overflow."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
    chosen = optimizer(model.parameters(), lr=0.05, **options)
    scaler, scales = torch.amp.GradScaler(device, init_scale=16.0, growth_interval=2), []
    for step in range(6):
        x = torch.linspace(-1, 1, 12).reshape(3, 4) + step
        chosen.zero_grad()
        loss = model(x.to(device)).square().mean()
        scaler.scale(loss * (torch.inf if step == overflow_at else 1)).backward()
        before = copy.deepcopy(model.state_dict())
        scaler.step(chosen)
        same = all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        assert same == (step == overflow_at)
        scaler.update()
        scales.append(scaler.get_scale())
    return [parameter.detach().cpu() for parameter in model.parameters()], scales


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.AdamW, {}), (torch.optim.AdamW, {"foreach": False})],
)
def test_training_with_an_overflow(optimizer: Callable[..., Any], options: dict[str, Any]) -> None:
    there, scales = trained("openreg", optimizer, 3, **options)
    here, expected = trained("cpu", optimizer, 3, **options)
    assert scales == expected == [16.0, 32.0, 32.0, 16.0, 16.0, 32.0]
    for one, other in zip(there, here, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6)


def test_with_autocast_small_gradients_survive() -> None:
    """In half precision a gradient below 6e-8 underflows to zero. The scaled gradient does not."""
    weights = []
    for scale in (1.0, 2.0**16):
        layer = nn.Linear(1, 1, bias=False).to("openreg")
        nn.init.zeros_(layer.weight)
        optimizer, scaler = torch.optim.SGD(layer.parameters(), lr=1e8), torch.amp.GradScaler("openreg", scale)
        with torch.autocast("openreg", dtype=torch.float16):
            output = layer(torch.ones(1, 1, device="openreg"))
        loss = output.float().sum() * 1e-8
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        weights.append(layer.weight.item())
    assert weights[0] == 0.0
    assert weights[1] == pytest.approx(-1.0, rel=1e-3)


def test_unscale_and_clip() -> None:
    weight = nn.Parameter(torch.ones(4, device="openreg"))
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler("openreg", 1024.0)
    scaler.scale((weight * 6).sum()).backward()
    scaler.unscale_(optimizer)
    assert weight.grad is not None
    assert weight.grad.tolist() == [6.0] * 4
    assert nn.utils.clip_grad_norm_([weight], 1.0).item() == 12.0
    scaler.step(optimizer)
    torch.testing.assert_close(weight.detach().cpu(), torch.full((4,), 0.5))
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)"):
        scaler.unscale_(optimizer)


@pytest.mark.needs("two devices")
@pytest.mark.parametrize("overflow_on", [None, 0, 1])
def test_parameters_on_two_devices(overflow_on: int | None) -> None:
    """An overflow on either device skips the step on both."""
    weights = [nn.Parameter(torch.ones(3, device=f"openreg:{index}")) for index in range(2)]
    optimizer, scaler = torch.optim.SGD(weights, lr=0.5), torch.amp.GradScaler("openreg", 4.0)
    losses = [weight.sum() * (torch.inf if index == overflow_on else 1) for index, weight in enumerate(weights)]
    for scaled in scaler.scale(losses):
        scaled.backward()
    scaler.step(optimizer)
    scaler.update()
    assert [weight.tolist() for weight in weights] == [[0.5 if overflow_on is None else 1.0] * 3] * 2
    assert scaler.get_scale() == (4.0 if overflow_on is None else 2.0)


def test_half_gradients_are_refused() -> None:
    weight = nn.Parameter(torch.ones(2, device="openreg", dtype=torch.float16))
    optimizer, scaler = torch.optim.SGD([weight], lr=0.5), torch.amp.GradScaler("openreg")
    scaler.scale(weight.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(optimizer)


def test_state_is_kept() -> None:
    scaler = torch.amp.GradScaler("openreg", 8.0, growth_interval=2)
    weight = nn.Parameter(torch.ones(2, device="openreg"))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    for _ in range(3):
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    other = torch.amp.GradScaler("openreg")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert (scaler.state_dict()["scale"], scaler.state_dict()["_growth_tracker"]) == (16.0, 1)
    assert other.scale(torch.ones(1, device="openreg")).item() == 16.0


def test_a_scaler_that_is_off() -> None:
    scaler = torch.amp.GradScaler("openreg", enabled=False)
    x = torch.ones(2, device="openreg")
    assert scaler.scale(x) is x
    assert scaler.get_scale() == 1.0


def test_many_steps_on_several_streams() -> None:
    for stream, found in itertools.product([torch.Stream("openreg") for _ in range(2)], (False, True)):
        with stream:
            gradient, found_inf = torch.full((5000,), torch.inf if found else 4.0, device="openreg"), number(0.0)
            for _ in range(50):
                unscale([gradient], found_inf, number(0.5))
            assert bool(found_inf.item()) == found
            assert gradient[0].item() == (torch.inf if found else 4.0 * 0.5**50)
