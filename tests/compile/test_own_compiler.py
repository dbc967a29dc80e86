"""The backend's own compiler, `torch.compile(backend="openreg")`: values, gradients, and what it leaves as it is."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed
from torch.autograd import DeviceType
from torch.profiler import profile

from tests.compile.compared import assert_same
from tests.offers import DEVICES, LAST_DEVICE
from torch_openreg import _C

pytestmark = pytest.mark.usefixtures("inductor")

EXTREMES = torch.tensor([0.0, -0.0, 1.5, -2.0, 90.0, -90.0, torch.inf, -torch.inf, torch.nan])
UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "abs": torch.abs,
    "cos": torch.cos,
    "exp": torch.exp,
    "neg": torch.neg,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu,
    "sin": torch.sin,
    "sqrt": torch.sqrt,
    "tanh": torch.tanh,
}


def kernels(function: Callable[..., object], *arguments: Tensor) -> list[str]:
    """The kernels that a call launches."""
    with profile() as recorded:
        function(*arguments)
        torch.openreg.synchronize()
    return [event.name for event in recorded.events() if event.device_type == DeviceType.PrivateUse1]


@pytest.mark.parametrize("name", UNARY)
def test_an_operator(name: str) -> None:
    def function(x: Tensor) -> Tensor:
        return UNARY[name](x) * 0.5  # a kernel consists of two nodes at least

    assert_same(function, EXTREMES, backend="openreg")
    assert_same(lambda x: 1 / (function(x) + -0.0), EXTREMES, backend="openreg")  # the sign of zero
    assert_same(function, torch.rand(3, 70, requires_grad=True), backend="openreg")


@pytest.mark.parametrize("numbers", [(2, 3), (-0.5, 1e-3), (3, 2**40)])
def test_numbers_and_two_tensors(numbers: tuple[float, float]) -> None:
    first, second = numbers

    def function(x: Tensor, y: Tensor) -> Tensor:
        return (x + first) * y / second - (first - y)

    x, y = (torch.randn(5, 40, requires_grad=True) for _ in range(2))
    assert_same(function, x, y, backend="openreg")


@pytest.mark.parametrize("device", DEVICES)
def test_a_part_is_one_kernel(device: str) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        inner = x.sigmoid() * y
        return inner, (inner @ y).tanh() + 1

    x, y = (torch.randn(6, 6) for _ in range(2))
    compiled = torch.compile(function, backend="openreg", fullgraph=True)
    arguments = x.to(device), y.to(device)
    torch.testing.assert_close([each.cpu() for each in compiled(*arguments)], list(function(x, y)))
    assert kernels(compiled, *arguments) == ["openreg_loop_sigmoid_mul", "mm", "openreg_loop_tanh_add"]


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (torch.randn(4, 5), torch.randn(5)),
        (torch.randn(5, 4).t(), torch.randn(4, 5)),
        (torch.randn(4, 5, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)),
        (torch.randn(4, 5).half(), torch.randn(4, 5)),
        (torch.randn(4, 5), torch.randint(5, (4, 5))),
        (torch.randn(4, 5), torch.tensor(2.0)),
    ],
    ids=["broadcast", "strides", "float64", "float16", "int64", "no dimensions"],
)
def test_anything_else_is_left_as_it_is(x: Tensor, y: Tensor) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return x * y + y

    assert_same(function, x, y, backend="openreg")
    compiled = torch.compile(function, backend="openreg", fullgraph=True)
    launched = kernels(compiled, x.to(LAST_DEVICE), y.to(LAST_DEVICE))
    assert launched
    assert not [name for name in launched if name.startswith("openreg_loop")]


def test_one_node_is_left_as_it_is() -> None:
    compiled = torch.compile(torch.sin, backend="openreg", fullgraph=True)
    x = torch.randn(9)
    torch.testing.assert_close(compiled(x.to(LAST_DEVICE)).cpu(), x.sin())
    assert kernels(compiled, x.to(LAST_DEVICE)) == ["sin"]


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,)])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    assert_same(lambda x: (x + 1) * x, torch.randn(shape), backend="openreg")


def test_sizes_may_change() -> None:
    compiled = torch.compile(lambda x: (x + 1).exp() * x, backend="openreg", dynamic=True, fullgraph=True)
    for size in (3, 7, 70):
        x = torch.randn(size, 2)
        torch.testing.assert_close(compiled(x.to(LAST_DEVICE)).cpu(), (x + 1).exp() * x)
    assert len(kernels(compiled, torch.ones(4, 2, device=LAST_DEVICE))) == 1


def test_inputs_in_place_and_branches() -> None:
    def function(x: Tensor) -> Tensor:
        x.add_(1).mul_(2)
        chosen: Tensor = torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() * 3, (x,))
        return chosen

    for sign in (1, -1):
        x = sign * torch.full((4,), 3.0)
        on_device = x.to(LAST_DEVICE)
        torch.compiler.reset()
        result = torch.compile(function, backend="openreg", fullgraph=True)(on_device)
        torch.testing.assert_close(result.cpu(), function(x))
        torch.testing.assert_close(on_device.cpu(), x)


@pytest.mark.needs("queue")
def test_it_runs_on_the_current_stream() -> None:
    compiled = torch.compile(lambda x: (x + 1) * x, backend="openreg", fullgraph=True)
    x = torch.full((4,), 3.0, device=LAST_DEVICE)
    compiled(x)
    with torch.Stream(LAST_DEVICE) as stream:
        torch.openreg._sleep(1_000_000_000)
        result = compiled(x)
        assert not stream.query()
    stream.synchronize()
    assert result.tolist() == [12.0] * 4


def test_a_build_without_a_launcher() -> None:
    message = "generated C\\+\\+ is code for the host, and nothing in this build runs host code on the device"
    compiled = torch.compile(lambda x: x + 1, backend="openreg")
    with (
        mock.patch.object(_C, "_can_launch_compiled", return_value=False),
        pytest.raises(BackendCompilerFailed, match=message),
    ):
        compiled(torch.ones(2, device=LAST_DEVICE))
