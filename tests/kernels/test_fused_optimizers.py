"""Optimizer steps with fused=True: the CPU's numbers, one kernel for all parameters, and what is refused."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import optim

from tests.offers import DEVICES, LAST_DEVICE

pytestmark = [
    pytest.mark.usefixtures("nothing_falls_back"),
    pytest.mark.skipif(
        "aten::_fused_sgd_" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
        reason="this build has no kernels",
    ),
]
# The first steps of Adam divide numbers that are close to zero. In 16 bits the loop rounds after each operator.
TOLERANCE: dict[torch.dtype, dict[str, Any]] = {
    torch.float32: {"rtol": 1e-5, "atol": 5e-6},
    torch.float64: {"rtol": 1e-12, "atol": 1e-13},
    torch.float16: {"rtol": 4e-3, "atol": 4e-3},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
}
DTYPES = tuple(TOLERANCE)
SHAPES = ((3, 4), (5,), (), (0, 2), (2, 3, 4, 5))
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (optim.SGD, {}),
    "sgd momentum": (optim.SGD, {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    "sgd nesterov": (optim.SGD, {"momentum": 0.9, "nesterov": True, "maximize": True}),
    "adam": (optim.Adam, {"weight_decay": 0.01}),
    "adam amsgrad": (optim.Adam, {"amsgrad": True, "maximize": True}),
    "adamw": (optim.AdamW, {"weight_decay": 0.1, "betas": (0.8, 0.95)}),
    "adamw amsgrad": (optim.AdamW, {"amsgrad": True}),
    "adagrad": (optim.Adagrad, {"lr_decay": 0.1, "weight_decay": 0.01, "initial_accumulator_value": 0.1}),
}


def parameters(device: str, dtype: torch.dtype) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(3)
    values = [torch.randn(shape, generator=generator) for shape in SHAPES]
    values.append(torch.randn(2, 3, 4, 4, generator=generator).contiguous(memory_format=torch.channels_last))
    values.append(torch.randn(3, 2, generator=generator).t())
    return [torch.nn.Parameter(value.to(dtype).to(device)) for value in values]


def train(device: str, dtype: torch.dtype, kind: str, steps: int = 4, **more: Any) -> list[torch.Tensor]:
    """Trains with the same gradients on each device. Returns the parameters and the state, on the CPU."""
    params = parameters(device, dtype)
    make, options = KINDS[kind]
    optimizer: Any = make(params, **{"lr": 0.1, **options, **more})
    generator = torch.Generator().manual_seed(4)
    for _ in range(steps):
        for param in params:
            noise = torch.randn(param.shape, generator=generator).to(dtype)
            param.grad = torch.empty_like(param).copy_(noise)
        optimizer.step()
    state = [tensor for param in params for tensor in optimizer.state[param].values() if tensor is not None]
    return [tensor.detach().cpu() for tensor in (*params, *state)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_the_cpu(kind: str, dtype: torch.dtype) -> None:
    # In 16 bits the CPU's fused SGD is wrong, and the loop's Adam divides by squares that have become 0.
    way = {"fused": True} if dtype.itemsize == 2 and KINDS[kind][0] is not optim.SGD else {"foreach": False}
    ours, expected = train(LAST_DEVICE, dtype, kind, fused=True), train("cpu", dtype, kind, **way)
    assert len(ours) == len(expected) >= len(parameters("cpu", dtype))
    for one, other in zip(ours, expected, strict=True):
        assert one.stride() == other.stride()
        torch.testing.assert_close(one, other, **TOLERANCE[dtype])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("adam")])
def test_the_average_of_squares_is_precise(kind: str) -> None:
    """With 1 - beta2 subtracted in float32, it is wrong in the fifth digit."""

    def squares(device: str, **way: Any) -> list[torch.Tensor]:
        params = parameters(device, torch.float32)
        make, options = KINDS[kind]
        optimizer: Any = make(params, **{"lr": 0.1, **options, **way})
        for param in params:
            param.grad = torch.full_like(param, 0.5)
        optimizer.step()
        return [optimizer.state[param]["exp_avg_sq"].cpu() for param in params]

    ours, expected = squares(LAST_DEVICE, fused=True), squares("cpu", foreach=False)
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-6, atol=0)


INFINITE = {**KINDS, "adamw without decay": (optim.AdamW, {"weight_decay": 0})}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", INFINITE)
def test_infinite_parameters_stay(kind: str, dtype: torch.dtype) -> None:
    """As the bias of an excluded class. Where weight decay enters the gradient, they become NaN on the CPU, too."""

    def step(device: str, *, fused: bool) -> list[torch.Tensor]:
        param = torch.nn.Parameter(torch.tensor([0.5, -math.inf, math.inf, math.nan] * 9, dtype=dtype).to(device))
        make, options = INFINITE[kind]
        optimizer: Any = make([param], **{"lr": 0.1, **options}, fused=fused)
        for gradient in (0.5, 0.0, math.nan):
            param.grad = torch.full_like(param, gradient).masked_fill_(~param.isfinite(), 0)
            optimizer.step()
        return [param.detach().cpu(), *(state.cpu() for state in optimizer.state[param].values() if state is not None)]

    for one, other in zip(step("openreg", fused=True), step("cpu", fused=False), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[dtype], equal_nan=True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_device_computes_a_step_in_the_same_way_without_fused(kind: str) -> None:
    expected = train("cpu", torch.float32, kind, foreach=False)
    for more in ({"foreach": True}, {"foreach": False}):
        for one, other in zip(train("openreg", torch.float32, kind, **more), expected, strict=True):
            torch.testing.assert_close(one, other, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("adam")])
def test_capturable_keeps_the_number_of_steps_on_the_device(kind: str) -> None:
    expected = train("cpu", torch.float32, kind, foreach=False)
    for more in ({"fused": True}, {"foreach": True}, {"foreach": False}):
        for one, other in zip(train("openreg", torch.float32, kind, capturable=True, **more), expected, strict=True):
            torch.testing.assert_close(one, other, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of_rate", ["cpu", LAST_DEVICE])
def test_the_learning_rate_may_be_a_tensor(kind: str, of_rate: str) -> None:
    ours = train(LAST_DEVICE, torch.float32, kind, fused=True, lr=torch.tensor(0.1, dtype=torch.float64).to(of_rate))
    for one, other in zip(ours, train("cpu", torch.float32, kind, fused=True), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE[torch.float32])


def test_a_rate_on_the_device_is_read_when_the_step_runs() -> None:
    rate, (param,) = torch.tensor(1.0, device="openreg"), [torch.nn.Parameter(torch.zeros(2, device="openreg"))]
    param.grad = torch.ones_like(param)
    optimizer = optim.SGD([param], lr=rate, fused=True)
    for value in (1.0, 0.25):
        rate.fill_(value)
        optimizer.step()
    assert param.tolist() == [-1.25, -1.25]


@pytest.mark.needs("two devices")
def test_parameters_of_two_devices_are_two_steps() -> None:
    params = [torch.nn.Parameter(torch.ones(2, device=f"openreg:{index}")) for index in (0, 1)]
    optimizer = optim.AdamW(params, lr=0.5, fused=True)
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer.step()
    assert params[0].tolist() == params[1].tolist() == pytest.approx([0.495, 0.495])


def test_all_parameters_take_one_kernel() -> None:
    params = parameters("openreg", torch.float32)
    for param in params:
        param.grad = torch.ones_like(param)
    torch.openreg.synchronize()
    with torch.profiler.profile() as profile:
        optim.SGD(params, lr=0.1, fused=True).step()
    names = [event.name for event in profile.events() if event.name.startswith("aten::")]
    assert names.count("aten::_fused_sgd_") == 1
    assert not [name for name in names if "add" in name or "mul" in name]


@pytest.mark.parametrize("kind", ["sgd momentum", "adam", "adamw amsgrad", "adagrad"])
def test_it_unscales_and_skips_as_on_the_cpu(kind: str) -> None:
    """A GradScaler passes the scale, and whether a gradient overflowed."""

    def step(device: str, overflow: float) -> list[torch.Tensor]:
        params = parameters(device, torch.float32)
        make, options = KINDS[kind]
        optimizer: Any = make(params, lr=0.1, fused=True, **options)
        for param in params:
            param.grad = torch.full_like(param, 8.0)
        optimizer.step()
        optimizer.grad_scale = torch.tensor(4.0, device=device)
        optimizer.found_inf = torch.tensor(overflow, device=device)
        optimizer.step()
        state = [tensor for param in params for tensor in optimizer.state[param].values() if tensor is not None]
        return [tensor.detach().cpu() for tensor in (*params, *state)]

    for overflow in (0.0, 1.0):
        for one, other in zip(step("openreg", overflow), step("cpu", overflow), strict=True):
            torch.testing.assert_close(one, other, **TOLERANCE[torch.float32])
    moved = [not torch.equal(*both) for both in zip(step("openreg", 0.0), step("openreg", 1.0), strict=True)]
    assert any(moved)


def sgd(params: list[torch.Tensor], grads: list[torch.Tensor], buffers: list[torch.Tensor] | None = None) -> None:
    options = {"weight_decay": 0.0, "lr": 0.1, "dampening": 0.0, "nesterov": False, "maximize": False}
    momentum = 0.0 if buffers is None else 0.9
    torch._fused_sgd_(params, grads, buffers or [], momentum=momentum, is_first_step=False, **options)


def test_what_it_cannot_do_is_refused_before_it_is_queued() -> None:
    x = torch.ones(2, 3, device="openreg")
    for params, grads, buffers, message in (
        ([x], [], None, "expected 1 grads, one for each parameter, but got 0"),
        ([x], [x.cpu()], None, r"expected grads\[0\] like its parameter \(Float on openreg:0.*but it is Float on cpu"),
        ([x], [x.half()], None, r"expected grads\[0\] like its parameter.*but it is Half"),
        ([x], [x.t()], None, r"expected grads\[0\] like its parameter.*sizes \[3, 2\]"),
        ([x], [torch.ones(3, 2, device="openreg").t()], None, r"strides \[3, 1\].*strides \[1, 2\]"),
        ([x, x.half()], [x, x.half()], None, "all parameters to be Float on openreg:0, but one is Half"),
        ([x.int()], [x.int()], None, "float32, float64, float16 or bfloat16, but got Int"),
        ([x[:, ::2]], [x[:, ::2]], None, r"sizes \[2, 2\] and strides \[3, 2\] is a view with gaps"),
        ([x], [x.clone()], [], "expected 1 momentum_buffer_list, one for each parameter, but got 0"),
    ):
        with pytest.raises(RuntimeError, match=message):
            sgd(params, grads, buffers)
    for other in DEVICES[1:]:
        with pytest.raises(RuntimeError, match=f"all parameters to be Float on openreg:0, but one is Float on {other}"):
            sgd([x, x.to(other)], [x, x])
    assert x.eq(1).all().item()


def test_numbers_of_the_step_must_be_on_the_device() -> None:
    x, step = torch.ones(2, device="openreg"), torch.ones((), device="openreg")
    options = {"lr_decay": 0.0, "weight_decay": 0.0, "eps": 1e-10, "maximize": False}

    def adagrad(steps: list[torch.Tensor], lr: Any = 0.1, **more: Any) -> None:
        torch._fused_adagrad_([x], [x.clone()], [x.clone()], steps, lr=lr, **options, **more)

    with pytest.raises(RuntimeError, match="_fused_adagrad_: expected state_steps to be one float32 on openreg:0"):
        adagrad([step.cpu()])
    with pytest.raises(RuntimeError, match=r"expected found_inf to be one float32 on openreg:0, but got Float.*\[2\]"):
        adagrad([step], found_inf=x)
    with pytest.raises(RuntimeError, match="expected grad_scale to be one float32 on openreg:0, but got Double"):
        adagrad([step], grad_scale=step.double())
    for other in DEVICES[1:]:
        with pytest.raises(
            RuntimeError, match=f"expected the learning rate on openreg:0 or the CPU, but it is on {other}"
        ):
            adagrad([step], lr=torch.ones((), device=other))
    with pytest.raises(RuntimeError, match="expected a learning rate of one element, but it has 2"):
        adagrad([step], lr=x)
    assert x.tolist() == [1.0, 1.0]
    adagrad([step], lr=0.0)


@pytest.mark.parametrize("rate", [1.0, torch.tensor(1.0)], ids=["number", "tensor"])
def test_no_parameters_are_no_step(rate: Any) -> None:
    """One tensor argument on the device dispatches the call here. As on the CPU, it does nothing."""
    options = {"weight_decay": 0.0, "momentum": 0.0, "dampening": 0.0, "nesterov": False, "maximize": False}
    of_adam = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8, "amsgrad": False, "maximize": False}
    lr = rate.to("openreg") if isinstance(rate, torch.Tensor) else rate
    found_inf = torch.zeros((), device="openreg")
    torch._fused_sgd_([], [], [], lr=lr, is_first_step=False, found_inf=found_inf, **options)
    for step in (torch._fused_adam_, torch._fused_adamw_):
        step([], [], [], [], [], [], lr=lr, found_inf=found_inf, **of_adam)
    torch._fused_adagrad_(
        [], [], [], [], lr=lr, lr_decay=0.0, weight_decay=0.0, eps=0.0, maximize=False, found_inf=found_inf
    )


def test_parameters_of_the_host_are_refused() -> None:
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="_fused_sgd_: expected all parameters to be on the device of grads"):
        torch._fused_sgd_(
            [x],
            [x.to("openreg")],
            [],
            weight_decay=0.0,
            momentum=0.0,
            lr=0.1,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=True,
        )
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("nesterov", [False, True])
def test_a_first_step_that_overflows_leaves_no_garbage_in_the_momentum(nesterov: bool) -> None:
    found = []
    for fused in (True, False):
        param = torch.nn.Parameter(torch.ones(1000, device="openreg"))
        optimizer = optim.SGD([param], lr=0.1, momentum=0.9, nesterov=nesterov, fused=fused)
        scaler = torch.amp.GradScaler("openreg", init_scale=2.0**16)
        for factor in (1e35, 1.0, 1.0):
            optimizer.zero_grad()
            scaler.scale((param * factor).sum()).backward()
            used = [torch.full((1000,), 7e5, device="openreg") for _ in range(8)]
            del used  # what memory without values contains
            scaler.step(optimizer)
            scaler.update()
        found.append(param.detach().cpu())
    torch.testing.assert_close(found[0], found[1])


def test_strides_of_dimensions_of_size_one_are_no_order() -> None:
    for module, sizes in ((torch.nn.Conv2d(1, 5, 3), (3, 1, 6, 6)), (torch.nn.Conv2d(4, 5, 1), (3, 4, 6, 6))):
        x = torch.randn(sizes).to(memory_format=torch.channels_last)
        trained = []
        ways: dict[str, dict[str, Any]] = {"openreg": {"fused": True}, "cpu": {"foreach": False}}
        for device, way in ways.items():
            model = copy.deepcopy(module).to(device)
            optimizer: Any = optim.Adam(model.parameters(), lr=0.1, **way)
            for _ in range(3):
                optimizer.zero_grad()
                model(x.to(device)).square().sum().backward()
                optimizer.step()
            trained.append([param.detach().cpu() for param in model.parameters()])
        torch.testing.assert_close(*trained)


@pytest.mark.needs("two devices")
def test_an_overflow_on_two_devices_skips_the_step() -> None:
    params = [torch.nn.Parameter(torch.ones(2, device=f"openreg:{index}")) for index in (0, 1)]
    for optimizer in (optim.SGD(params, lr=0.1, fused=True), optim.Adam(params, lr=0.1, fused=True)):
        scaler = torch.amp.GradScaler("openreg", init_scale=2.0**16)
        before = [param.tolist() for param in params]
        for factor in (1e35, 1.0):
            optimizer.zero_grad()
            sum(scaler.scale((param * factor).sum()).to("openreg:0") for param in params).backward()
            scaler.step(optimizer)
            scaler.update()
            if factor > 1:
                assert [param.tolist() for param in params] == before
        for param, old in zip(params, before, strict=True):
            torch.testing.assert_close(param.detach().cpu(), torch.tensor(old) - 0.1)


def test_an_overflow_on_two_devices_in_the_first_step_of_adagrad() -> None:
    """torch.optim then takes 2 from the number of steps."""
    param = torch.nn.Parameter(torch.ones(2, device="openreg"))
    optimizer = optim.Adagrad([param], lr=0.1, lr_decay=1.0, fused=True)
    optimizer.grad_scale = None
    for overflows in (2.0, 0.0, 0.0):
        param.grad = torch.ones_like(param)
        optimizer.found_inf = torch.tensor(overflows, device="openreg")
        optimizer.step()
    assert param.isfinite().all()
    assert param.max() < 1
