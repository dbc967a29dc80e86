"""The operators ``torch.ops.openreg_stable``, whose library works with PyTorch releases newer than its build's.

Importing this module loads the library and registers the derivatives of its operators. They are written in Python,
because PyTorch's stable binary interface does not include autograd.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import torch_openreg._C

_LIBRARY = Path(torch_openreg._C.__file__).parent / "lib" / "libopenreg_stable.so"
torch.ops.load_library(_LIBRARY)  # type: ignore[no-untyped-call]


# LITERALINCLUDE START: stable-derivative
def _keep(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, float], output: torch.Tensor) -> None:
    tensor, weight, ctx.eps = inputs
    ctx.save_for_backward(tensor, weight)


def _rms_norm_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
    """One gradient per argument, None for the number. Its operators are differentiable, so second derivatives exist."""
    # In float32 at least, as in the library: the square of 300 is infinite in float16.
    dtype = ctx.saved_tensors[0].dtype
    wide = torch.promote_types(dtype, torch.float32)
    tensor, weight, grad = (each.to(wide) for each in (*ctx.saved_tensors, grad))
    scale = torch.rsqrt(tensor.square().mean(-1, keepdim=True) + ctx.eps)
    normal, weighted = tensor * scale, grad * weight
    grad_tensor = scale * (weighted - normal * (weighted * normal).mean(-1, keepdim=True))
    return grad_tensor.to(dtype), (grad * normal).sum_to_size(weight.shape).to(dtype), None


torch.library.register_autograd("openreg_stable::rms_norm", _rms_norm_backward, setup_context=_keep)
# LITERALINCLUDE END: stable-derivative
