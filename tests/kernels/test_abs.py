from __future__ import annotations

import pytest
import torch

from tests import offers
from tests.layouts import DTYPES, LAYOUTS, to_device, values

SIGNED = [dtype for dtype in DTYPES if dtype != torch.bool]


@pytest.fixture(autouse=True)
def natively() -> object:
    torch.openreg.reset_fallback_stats()
    yield
    if offers.has_host_kernels() and torch._C._dispatch_has_kernel_for_dispatch_key("aten::abs.out", "PrivateUse1"):
        assert "aten::abs.out" not in torch.openreg.fallback_stats()


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_and_strides(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](dtype)
    expected = x.abs()
    actual = to_device(x).abs()
    torch.testing.assert_close(actual.cpu(), expected)
    assert actual.dtype == expected.dtype
    assert actual.stride() == expected.stride()


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "expanded"])
@pytest.mark.parametrize("dtype", [torch.int16, torch.bfloat16, torch.float32], ids=str)
def test_in_place_and_out(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](dtype)
    on_device = to_device(x)
    expected = x.abs()
    out = torch.empty_like(on_device)
    assert torch.abs(on_device, out=out) is out
    torch.testing.assert_close(out.cpu(), expected)
    address = on_device.data_ptr()
    on_device.abs_()
    assert on_device.data_ptr() == address
    torch.testing.assert_close(on_device.cpu(), expected)


def test_special_values() -> None:
    x = torch.tensor([-0.0, float("-inf"), float("nan"), -float("nan"), -1e-45])
    y = x.to("openreg").abs().cpu()
    assert torch.equal(y.view(torch.int32), x.abs().view(torch.int32))
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        smallest = torch.tensor([torch.iinfo(dtype).min], dtype=dtype)
        assert torch.equal(smallest.to("openreg").abs().cpu(), smallest.abs())


def test_complex_out_must_be_real() -> None:
    x = values((4,), torch.complex64)
    out = torch.empty(4, device="openreg")
    torch.abs(x.to("openreg"), out=out)
    torch.testing.assert_close(out.cpu(), x.abs())


def test_bool_is_refused_as_on_the_cpu() -> None:
    with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
        torch.abs(torch.tensor([True]))
    with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
        torch.abs(torch.tensor([True], device="openreg"))


def test_wrong_out_dtype() -> None:
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        torch.abs(torch.ones(2, device="openreg"), out=torch.empty(2, dtype=torch.float64, device="openreg"))


def test_gradient() -> None:
    x = values((5, 4), torch.float64).add(0.5)
    device_x = x.to("openreg").requires_grad_()
    x.requires_grad_()
    (device_x.abs() * torch.arange(4.0, dtype=torch.float64, device="openreg")).sum().backward()
    (x.abs() * torch.arange(4.0, dtype=torch.float64)).sum().backward()
    torch.testing.assert_close(device_x.grad.cpu(), x.grad)
    assert torch.autograd.gradcheck(torch.abs, (device_x,))


def test_conjugate_view() -> None:
    x = values((6,), torch.complex128)
    torch.testing.assert_close(x.to("openreg").conj().abs().cpu(), x.abs())


@pytest.mark.parametrize(
    "dtype", [torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e4m3fn, torch.float8_e4m3fnuz]
)
def test_eight_bits(dtype: torch.dtype) -> None:
    x = torch.tensor([-1.5, 2.0, -0.0, float("nan")]).to(dtype)
    assert x.to("openreg").abs().cpu().view(torch.uint8).equal(x.abs().view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_a_norm_is_the_magnitude_of_an_element(dtype: torch.dtype) -> None:
    """The derivative of a maximum norm divides by the number of elements whose magnitude equals the norm."""
    x = values((20_000,), dtype).to("openreg")
    for order in (torch.inf, -torch.inf):
        assert torch.equal(torch.linalg.vector_norm(x[:, None], order, dim=1), x.abs())
        leaf = x.clone().requires_grad_()
        torch.linalg.vector_norm(leaf.view(-1, 8), order, dim=1).sum().backward()
        assert leaf.grad is not None
        assert not leaf.grad.isnan().any()
