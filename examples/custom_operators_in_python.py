"""The three ways to write a custom operator, in Python: the counterparts of csrc/aten/custom.

A kernel in Python is composed of PyTorch's operators: it runs on every device, at the cost of a launch per operator.
"""

from __future__ import annotations

from typing import Any

import torch


# LITERALINCLUDE START: python-forward-only
@torch.library.custom_op("guide::custom_abs", mutates_args=(), device_types="cpu")
def custom_abs(input: torch.Tensor) -> torch.Tensor:
    """The absolute value of a real tensor. The schema is read from the annotations."""
    return torch.abs(input)


@custom_abs.register_kernel("openreg")
def _(input: torch.Tensor) -> torch.Tensor:
    # Not maximum(input, -input): unsigned numbers wrap around, and -0.0 is no less than 0.0.
    return torch.where(input > 0, input, 0 - input)


@custom_abs.register_fake
def _(input: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(input)


# LITERALINCLUDE END: python-forward-only


# LITERALINCLUDE START: python-soft-cap
@torch.library.custom_op("guide::soft_cap", mutates_args=())
def soft_cap(input: torch.Tensor, cap: float) -> torch.Tensor:
    """Limits values smoothly to the open interval (-cap, cap). One kernel for all devices."""
    return cap * torch.tanh(input.contiguous() / cap)


@torch.library.custom_op("guide::soft_cap_backward", mutates_args=())
def soft_cap_backward(grad: torch.Tensor, output: torch.Tensor, cap: float) -> torch.Tensor:
    """The gradient of soft_cap's input, from the gradient of its output and the output itself."""
    return (grad * (1 - (output / cap) ** 2)).contiguous()


@soft_cap.register_fake
def _(input: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.empty_like(input, memory_format=torch.contiguous_format)


@soft_cap_backward.register_fake
def _(grad: torch.Tensor, output: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.empty_like(output, memory_format=torch.contiguous_format)


def _setup_context(ctx: Any, inputs: tuple[torch.Tensor, float], output: torch.Tensor) -> None:
    ctx.save_for_backward(output)
    ctx.cap = inputs[1]


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
    (output,) = ctx.saved_tensors
    return soft_cap_backward(grad, output, ctx.cap), None


# Connects the two, as the C++ tab does at the Autograd key.
soft_cap.register_autograd(_backward, setup_context=_setup_context)
# LITERALINCLUDE END: python-soft-cap


# LITERALINCLUDE START: python-swiglu
class Swiglu(torch.autograd.Function):
    """silu(gate) * up, which saves two tensors for backward instead of three. It needs no registration."""

    @staticmethod
    def forward(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        """Computes the value. Autograd is disabled here."""
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor) -> None:
        """Saves what backward needs as saved tensors, so that autograd detects in-place changes."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """One gradient per argument of forward, computed by differentiable operators."""
        gate, up = ctx.saved_tensors
        sigmoid = torch.sigmoid(gate)
        return grad * up * sigmoid * (1 + gate * (1 - sigmoid)), grad * gate * sigmoid


# LITERALINCLUDE END: python-swiglu
