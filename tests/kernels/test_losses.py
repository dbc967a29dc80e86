"""mse_loss and smooth_l1_loss, for which PyTorch would resize an output of the wrong shape, with a warning."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.layouts import values


@pytest.mark.parametrize("loss", [torch.nn.functional.mse_loss, torch.nn.functional.smooth_l1_loss])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_that_reduce_give_no_warning(loss: Callable[..., torch.Tensor], reduction: str) -> None:
    x, y = values((4, 3), torch.float32), values((4, 3), torch.float32).flip(0)
    device_x = x.to("openreg").requires_grad_()
    x.requires_grad_()
    expected, actual = loss(x, y, reduction=reduction), loss(device_x, y.to("openreg"), reduction=reduction)
    torch.testing.assert_close(actual.cpu(), expected)
    expected.sum().backward()
    actual.sum().backward()
    torch.testing.assert_close(device_x.grad.cpu(), x.grad)


@pytest.mark.needs("host kernels")  # PyTorch's function, which a fallback calls, resizes the output in between
@pytest.mark.parametrize("loss", [torch._C._nn.mse_loss, torch._C._nn.smooth_l1_loss])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_a_given_output_has_any_dtype_that_can_hold_the_loss(loss: Callable[..., torch.Tensor], reduction: int) -> None:
    x, y = values((4, 3), torch.float32), values((4, 3), torch.float32).flip(0)
    shape = (4, 3) if reduction == 0 else ()
    for dtype in (torch.float64, torch.bfloat16):
        out = torch.empty(shape, dtype=dtype, device="openreg")
        loss(x.to("openreg"), y.to("openreg"), reduction, out=out)
        torch.testing.assert_close(out.cpu(), loss(x, y, reduction).to(dtype))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Int"):
        loss(x.to("openreg"), y.to("openreg"), reduction, out=torch.empty(shape, dtype=torch.int32, device="openreg"))
