"""Native operators in place and with out=, and with a dtype that is not native: the values are the CPU's."""

from __future__ import annotations

from collections.abc import Callable

import torch


def same(function: Callable[..., torch.Tensor], *arguments: torch.Tensor) -> bool:
    """Whether a function gives on the device what it gives on the CPU."""
    result = function(*(argument.to("openreg") for argument in arguments))
    expected = function(*(argument.clone() for argument in arguments))
    return torch.allclose(result.cpu(), expected, rtol=1e-4) and result.dtype == expected.dtype


torch.manual_seed(0)
for dtype in (torch.float32, torch.complex64):
    x = torch.randn(5, 5).to(dtype)
    print(dtype, "abs, sum:", same(torch.abs, x), same(torch.sum, x), end=" ")
    print(same(lambda x, out: torch.sum(x, 0, out=out), x, x[0]))
    print("  in place:", *(same(lambda x, name=name: getattr(x, name)(x), x) for name in ("add_", "sub_", "mul_")))
    print("  out=    :", *(same(lambda x, f=f: f(x, x, out=x), x) for f in (torch.add, torch.sub, torch.mul)))
    print("  products:", same(torch.mm, x, x), same(lambda x, y, out: torch.mm(x, y, out=out), x, x, x))
    print("  addmm   :", same(torch.addmm, x, x, x), same(lambda x, y, z: x.addmm_(y, z), x, x, x),
          same(lambda x, y, z, out: torch.addmm(x, y, z, out=out), x, x, x, x))  # fmt: skip
