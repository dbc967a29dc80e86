"""Grid sampling in two and three dimensions, and its gradients, compared with the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.offers import DEVICES

pytestmark = [
    pytest.mark.usefixtures("nothing_falls_back"),
    pytest.mark.skipif(
        "aten::grid_sampler_2d" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
        reason="this build has no kernels",
    ),
]
SIZES = {2: ((2, 3, 5, 6), (2, 4, 3, 2)), 3: ((2, 3, 4, 5, 3), (2, 2, 4, 3, 3))}
MODES = [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]


def tensors(dims: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """An input, and a grid that lies partly outside of it."""
    of_input, of_grid = SIZES[dims]
    return torch.randn(of_input).to(dtype), (torch.rand(of_grid) * 2.4 - 1.2).to(dtype)


def results(
    device: str, x: torch.Tensor, grid: torch.Tensor, rounded: torch.dtype | None = None, **options: Any
) -> list[torch.Tensor]:
    """The samples, and the gradients of input and grid; the gradient of the samples is ``rounded`` to a dtype."""
    x, grid = x.to(device).requires_grad_(), grid.to(device).requires_grad_()
    samples = functional.grid_sample(x, grid, **options)
    weights = torch.linspace(-1, 1, samples.numel(), dtype=rounded or x.dtype).view(samples.shape).to(device, x.dtype)
    return [tensor.cpu() for tensor in (samples, *torch.autograd.grad(samples, [x, grid], weights))]


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("dims", "mode"), MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_samples_and_gradients(
    dtype: torch.dtype, dims: int, mode: str, padding_mode: str, align_corners: bool
) -> None:
    x, grid = tensors(dims, dtype)
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    torch.testing.assert_close(results("openreg", x, grid, **options), results("cpu", x, grid, **options))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dims", SIZES)
def test_16_bits_are_computed_in_float(dims: int, dtype: torch.dtype) -> None:
    """The CPU's own loop for 16 bits reads beyond its rows, and sometimes returns NaN."""
    x, grid = tensors(dims, dtype)
    expected = results("cpu", x.float(), grid.float(), dtype, align_corners=False)
    actual = results("openreg", x, grid, align_corners=False)
    torch.testing.assert_close(actual, [tensor.to(dtype) for tensor in expected])


def test_layouts() -> None:
    x, grid = tensors(2, torch.float32)
    expected = results("cpu", x, grid, align_corners=False)
    channels_last = x.to(memory_format=torch.channels_last)
    turned = grid.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0)
    torch.testing.assert_close(results("openreg", channels_last, turned, align_corners=False), expected)


def test_an_empty_batch() -> None:
    samples = functional.grid_sample(
        torch.ones(0, 2, 3, 3, device="openreg"), torch.ones(0, 4, 5, 2, device="openreg"), align_corners=False
    )
    assert samples.shape == (0, 2, 4, 5)


def test_the_gradient_of_the_grid_alone() -> None:
    x, grid = (tensor.to("openreg") for tensor in tensors(2, torch.float32))
    functional.grid_sample(x, grid.requires_grad_(), align_corners=False).sum().backward()
    assert x.grad is None
    assert grid.grad is not None
    aten = torch.ops.aten
    weights = torch.ones(2, 3, 4, 3, device="openreg")
    none, given = aten.grid_sampler_2d_backward(weights, x, grid.detach(), 0, 0, False, [False, True])
    assert none is None
    torch.testing.assert_close(given, grid.grad)


@pytest.mark.parametrize(
    ("x", "grid", "mode", "padding", "why"),
    [
        ((2, 1, 3, 3), (1, 2, 2, 2), 0, 0, "expected grid and input to have same batch size"),
        ((1, 1, 3, 3), (1, 2, 2, 3), 0, 0, "expected grid to have size 2 in last dimension"),
        ((1, 1, 0, 3), (1, 2, 2, 2), 0, 0, "expected input to have non-empty spatial dimensions"),
        ((1, 1, 3, 3), (1, 2, 2, 2), 3, 0, "expected an interpolation and a padding of 0, 1 or 2, but got 3 and 0"),
        ((1, 1, 3, 3), (1, 2, 2, 2), 0, -1, "expected an interpolation and a padding of 0, 1 or 2, but got 0 and -1"),
    ],
)
def test_what_is_refused(x: tuple[int, ...], grid: tuple[int, ...], mode: int, padding: int, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        torch.grid_sampler_2d(torch.ones(x, device="openreg"), torch.ones(grid, device="openreg"), mode, padding, False)


def test_dtypes_and_devices_that_differ() -> None:
    x, grid = (tensor.to("openreg") for tensor in tensors(2, torch.float32))
    with pytest.raises(RuntimeError, match="expected input and grid to have same dtype, but input has float and grid"):
        functional.grid_sample(x, grid.double(), align_corners=False)
    for device in ("cpu", *DEVICES[1:]):
        with pytest.raises(
            RuntimeError, match="expected input and grid to be on same device, but input is on openreg:0"
        ):
            functional.grid_sample(x, grid.to(device), align_corners=False)
    with pytest.raises(RuntimeError, match=r"the gradient has shape \[2\], and the output \[2, 3, 4, 3\]"):
        torch.ops.aten.grid_sampler_2d_backward(torch.ones(2).to(x), x, grid, 0, 0, False, [True, True])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 3e38, -3e38])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_the_gradient_of_a_grid_that_is_not_finite(
    mode: str, padding_mode: str, value: float, dtype: torch.dtype
) -> None:
    """The CPU's vectorized loop writes outside of the image, and the process crashes: its other one is compared."""
    x, grid = tensors(2, torch.float32)
    grid[0, 0, 0, 0] = value
    codes = ["bilinear", "nearest", "bicubic"].index(mode), ["zeros", "border", "reflection"].index(padding_mode)
    grads = torch.linspace(-1, 1, 2 * 3 * 4 * 3).view(2, 3, 4, 3)
    expected = torch.ops.aten._grid_sampler_2d_cpu_fallback_backward(grads, x, grid, *codes, False)
    x, grid = x.to(dtype), grid.to(dtype)
    _, *actual = results("openreg", x, grid, mode=mode, padding_mode=padding_mode, align_corners=False)
    assert {each.dtype for each in actual} == {dtype}
    torch.testing.assert_close([each.float() for each in actual], list(expected), equal_nan=True)
