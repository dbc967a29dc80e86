"""Two composite operators get a kernel for the device: what happens to their derivatives.

    python examples/operators_composite.py

The kernels are in Python and stand for kernels of a device: autograd does not see what happens inside.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772
library = torch.library.Library("aten", "IMPL")


def rounded(tensor: torch.Tensor) -> list[float]:
    """The values of the only row."""
    return [round(value, 4) for value in tensor[0].tolist()]


def attempt(title: str, call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Makes a call that requires a gradient, runs its backward, and prints the outcome."""
    x = torch.tensor([[-1.0, 2.0]], device="openreg", requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call(x)
            node = result.grad_fn.name() if result.grad_fn is not None else "none"
            print(f"{title}: {rounded(result)} {node.rpartition('::')[2]}")
            result.sum().backward()
            print("   gradient:", None if x.grad is None else rounded(x.grad))
        except NotImplementedError as error:
            print(f"   {type(error).__name__}: {str(error).partition(': register')[0]}")
    for warning in caught:
        print(f"   {warning.category.__name__}: {str(warning.message).partition('. ')[0]}")


# LITERALINCLUDE START: operators-composite-kernels
def selu(x: torch.Tensor) -> torch.Tensor:
    """A kernel for aten::selu, for which PyTorch has no derivative formula."""
    with torch._C._AutoDispatchBelowAutograd():
        return SCALE * torch.where(x > 0, x, ALPHA * torch.expm1(x))


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """A kernel for aten::linear, for which PyTorch has one: it calls aten::linear_backward."""
    with torch._C._AutoDispatchBelowAutograd():
        product = x @ weight.t()
        return product if bias is None else product + bias


# LITERALINCLUDE END: operators-composite-kernels


# LITERALINCLUDE START: operators-composite-autograd
class Selu(torch.autograd.Function):
    """Restores the lost derivative: the kernel below autograd, and a backward beside it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Calls the kernel at PrivateUse1, and keeps the input."""
        ctx.save_for_backward(x)
        with torch._C._AutoDispatchBelowAutograd():
            return torch.selu(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> torch.Tensor:
        """The slope at each element, times the gradient of the result."""
        (x,) = ctx.saved_tensors
        slope: torch.Tensor = SCALE * torch.where(x > 0, 1, ALPHA * torch.exp(x))
        return torch.mul(slope, gradients[0])


# LITERALINCLUDE END: operators-composite-autograd


def main() -> None:
    """Calls selu and linear as PyTorch composes them, with a kernel, and selu with its derivative registered."""
    weight, bias = torch.tensor([[3.0, 5.0]], device="openreg"), torch.ones(1, device="openreg")
    attempt("selu, composite", torch.selu)
    torch.library.impl(library, "selu", "PrivateUse1")(selu)
    attempt("selu, a kernel", torch.selu)
    torch.library.impl(library, "selu", "AutogradPrivateUse1")(lambda x: Selu.apply(x))
    attempt("selu, a kernel and its derivative", torch.selu)
    attempt("linear, composite", lambda x: functional.linear(x, weight, bias))
    torch.library.impl(library, "linear", "PrivateUse1")(linear)
    attempt("linear, a kernel", lambda x: functional.linear(x, weight, bias))


if __name__ == "__main__":
    main()
