from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.layouts import DTYPES, LAYOUTS, to_device, values
from tests.offers import DEVICES, LAST_DEVICE

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")

OPS = torch.ops.openreg
REAL = [dtype for dtype in DTYPES if dtype.is_floating_point]
# The fourth test of PyTorch's opcheck supports only PyTorch's own devices.
OPCHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")


def soft_cap(x: torch.Tensor, cap: float) -> torch.Tensor:
    """The definition in terms of PyTorch's own operators."""
    return cap * torch.tanh(x.contiguous() / cap)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """The definition in terms of PyTorch's own operators."""
    return torch.nn.functional.silu(gate) * up


def on_device(*shape: int) -> torch.Tensor:
    """Doubles around zero, none of them zero, that require gradients."""
    return values(shape, torch.float64).div(8).add(0.03).to("openreg").requires_grad_()


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != torch.bool], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_custom_abs_keeps_values_dtypes_and_strides(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](dtype)
    expected = x.abs()
    actual = OPS.custom_abs(to_device(x))
    assert actual.device == torch.device("openreg:0")
    assert actual.dtype == expected.dtype
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual.cpu(), expected)
    assert OPS.custom_abs(x.to("meta")).stride() == expected.stride()


def test_custom_abs_of_special_values() -> None:
    x = torch.tensor([-0.0, float("-inf"), float("nan"), -float("nan"), -1e-45])
    assert torch.equal(OPS.custom_abs(x.to("openreg")).cpu().view(torch.int32), x.abs().view(torch.int32))
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        smallest = torch.tensor([torch.iinfo(dtype).min], dtype=dtype)
        assert torch.equal(OPS.custom_abs(smallest.to("openreg")).cpu(), smallest)
    z = values((6,), torch.complex128)
    torch.testing.assert_close(OPS.custom_abs(z.to("openreg").conj()).cpu(), z.abs())


def test_custom_abs_refuses_bool_as_abs_does() -> None:
    for device in ("cpu", "openreg"):
        with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
            OPS.custom_abs(torch.tensor([True], device=device))


@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_custom_abs_says_that_it_has_no_derivative(device: str) -> None:
    x = torch.ones(2, device=device, requires_grad=True)
    y = OPS.custom_abs(x)
    with pytest.raises(RuntimeError, match="derivative for openreg::custom_abs is not implemented"):
        y.sum().backward()
    with torch.no_grad():
        assert not OPS.custom_abs(x).requires_grad
    with torch.inference_mode():
        assert OPS.custom_abs(x).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_soft_cap_is_contiguous_and_as_defined(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](dtype)
    actual = OPS.soft_cap(to_device(x), 30.0)
    assert actual.dtype == dtype
    assert actual.is_contiguous()
    torch.testing.assert_close(actual.cpu(), soft_cap(x.double(), 30.0).to(dtype))
    torch.testing.assert_close(OPS.soft_cap(x, 30.0), soft_cap(x.double(), 30.0).to(dtype))
    assert OPS.soft_cap(x.to("meta"), 30.0).stride() == actual.stride()


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_of_soft_cap(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](dtype)
    device_x = to_device(x).requires_grad_()
    reference = x.double().requires_grad_()
    weight = values(tuple(x.shape), torch.float64).div(16).to(dtype)
    OPS.soft_cap(device_x, 30.0).backward(weight.to("openreg"))
    soft_cap(reference, 30.0).backward(weight.double())
    assert device_x.grad is not None
    assert reference.grad is not None
    tolerance = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype, 1e-5)
    scale = max(1.0, weight.abs().double().max().item()) if weight.numel() else 1.0
    torch.testing.assert_close(device_x.grad.cpu().double(), reference.grad, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("device", ["cpu", "openreg", "meta"])
def test_soft_cap_refuses_what_it_cannot_compute(device: str) -> None:
    x = torch.ones(3, device=device)
    for cap in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="the cap of soft_cap is a positive finite number, got"):
            OPS.soft_cap(x, cap)
    with pytest.raises(TypeError, match="soft_cap takes a floating point tensor, got Long"):
        OPS.soft_cap(x.long(), 1.0)
    with pytest.raises(
        ValueError, match=r"has the sizes and dtype of its output, \[2\] and Float, got \[3\] and Float"
    ):
        OPS.soft_cap_backward(x, x[:2], 1.0)
    with pytest.raises(ValueError, match=r"\[3\] and Float, got \[3\] and Double"):
        OPS.soft_cap_backward(x.double(), x, 1.0)


def test_soft_cap_backward_refuses_two_devices() -> None:
    x = torch.ones(3, device="openreg")
    for output in (torch.ones(3, device=device) for device in ("cpu", *DEVICES[1:])):
        with pytest.raises(
            RuntimeError, match=r"soft_cap is on openreg:0, its output on|must be on one device|is on cpu"
        ):
            OPS.soft_cap_backward(x, output, 1.0)


def test_soft_cap_has_no_second_derivative_and_says_so() -> None:
    x = on_device(3)
    (gradient,) = torch.autograd.grad(OPS.soft_cap(x, 2.0).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for openreg::soft_cap_backward is not implemented"):
        gradient.sum().backward()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_swiglu_as_defined(layout: str) -> None:
    gate = LAYOUTS[layout](torch.float64) / 8
    up = gate.cos()
    expected = swiglu(gate, up)
    actual = OPS.swiglu(to_device(gate), to_device(up))
    torch.testing.assert_close(actual.cpu(), expected)
    torch.testing.assert_close(OPS.swiglu(gate, up), expected)


@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_the_gradient_of_swiglu_of_complex_numbers(device: str) -> None:
    gate, up = (torch.randn(3, dtype=torch.complex128).to(device).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(OPS.swiglu, (gate, up))
    assert torch.autograd.gradgradcheck(OPS.swiglu, (gate, up))


def test_swiglu_refuses_other_sizes() -> None:
    x = torch.ones(3, device="openreg")
    with pytest.raises(ValueError, match=r"gate and up of swiglu have the same sizes, got \[3\] and \[2\]"):
        OPS.swiglu(x, x[:2])


def test_swiglu_keeps_two_tensors_for_backward() -> None:
    def kept(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> int:
        addresses = set()

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            addresses.add(tensor.data_ptr())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = function(on_device(3), on_device(3))
        assert result.requires_grad
        return len(addresses)

    assert kept(OPS.swiglu) == 2
    assert kept(swiglu) == 3


def test_gradients_against_differences() -> None:
    x, y = on_device(2, 3), on_device(2, 3)
    assert torch.autograd.gradcheck(lambda t: OPS.soft_cap(t, 2.0), (x,))
    assert torch.autograd.gradcheck(lambda t: OPS.soft_cap(t.t(), 2.0), (x,))
    assert torch.autograd.gradcheck(OPS.swiglu, (x, y))
    assert torch.autograd.gradgradcheck(OPS.swiglu, (x, y))


# Since 2.14 PyTorch warns about what its own check does.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_opcheck(device: str) -> None:
    x = values((2, 3), torch.float32).to(device)
    samples: list[tuple[torch._ops.OpOverload, tuple[object, ...]]] = [
        (OPS.custom_abs.default, (x,)),
        (OPS.custom_abs.default, (x.t(),)),
        (OPS.custom_abs.default, (x.to(torch.complex64),)),
        (OPS.soft_cap.default, (x.clone().requires_grad_(), 2.0)),
        (OPS.soft_cap.default, (x.t().detach(), 2.0)),
        (OPS.soft_cap_backward.default, (x, x, 2.0)),
        (OPS.swiglu.default, (x.clone().requires_grad_(), x.clone().requires_grad_())),
    ]
    for op, arguments in samples:
        torch.library.opcheck(op, arguments, test_utils=OPCHECKS)
        if device == "cpu":
            torch.library.opcheck(op, arguments, test_utils="test_autograd_registration")


def test_the_second_device() -> None:
    x = values((5,), torch.float32)
    for call in (OPS.custom_abs, lambda x: OPS.soft_cap(x, 2.0)):
        result = call(x.to(LAST_DEVICE))
        assert result.device == torch.device(LAST_DEVICE)
        torch.testing.assert_close(result.cpu(), call(x))
