"""Operators on native kernels: where they run, and that they give the CPU's values."""

from __future__ import annotations

import torch

torch.manual_seed(0)
x, y = torch.randn(40, 65), torch.randn(65, 40)
here, there = x.to("openreg"), y.to("openreg")
torch.openreg.reset_fallback_stats()


def same(result: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two results agree up to the order of additions, including strides and dtype."""
    close = torch.allclose(result.cpu(), expected, rtol=1e-4, atol=1e-4, equal_nan=True)
    return close and result.stride() == expected.stride() and result.dtype == expected.dtype


print("abs    ", same(here.abs(), x.abs()), same(here.t()[::2, 1:].abs(), x.t()[::2, 1:].abs()))
print("add    ", same(here + there.t(), x + y.t()), same(here + 1.5, x + 1.5), same(here + here[0], x + x[0]))
print("sub    ", same(torch.sub(here, here[:1], alpha=3), torch.sub(x, x[:1], alpha=3)), same(1 - here, 1 - x))
print("mul    ", same(here * there.t(), x * y.t()), same(2 * here[:, 0], 2 * x[:, 0]))
print("sum    ", same(here.sum(), x.sum()), same(here.sum(0), x.sum(0)), same(here.t().sum(0), x.t().sum(0)))
long = torch.arange(100_000)
print("sum of parts", long.to("openreg").sum().item() == long.sum().item())
print("mm     ", same(here.mm(there), x.mm(y)), same(there.t().mm(here.t()), y.t().mm(x.t())))
bias = torch.randn(40)
print("addmm  ", same(torch.addmm(bias.to("openreg"), here, there, alpha=2), torch.addmm(bias, x, y, alpha=2)))
for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64):
    few = torch.tensor([-3, 2, 5]).to(dtype)
    on_device = few.to("openreg")
    same_dtype = [same(on_device.abs(), few.abs()), same(on_device + on_device, few + few)]
    print(f"{dtype!s:15}", *same_dtype, same(on_device * 3, few * 3), same(on_device.sum(), few.sum()))

out = torch.empty(40, 40, device="openreg").t()
is_out = torch.mm(here, there, out=out) is out
print("out=   ", is_out, torch.allclose(out.cpu(), x.mm(y), atol=1e-4))
square = out.contiguous()
print("in place", same(square.clone().addmm_(square, square), torch.addmm(square.cpu(), square.cpu(), square.cpu())))
fell_back = sorted(torch.openreg.fallback_stats())
print("fell back:", fell_back)
