"""Lets `torch.nn.attention.flex_attention` take tensors of the device, and gives it the device's autocast.

Called at the end of the import of that module, which `import torch` leaves out.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKeySet
from torch._higher_order_ops.flex_attention import flex_attention
from torch.amp.autocast_mode import _cast
from torch.nn.attention import flex_attention as public

# LITERALINCLUDE START: flex-register
_AUTOCAST = torch._C._dispatch_key_parse("AutocastPrivateUse1")


def register() -> None:
    """Without it, `flex_attention` refuses the device, which is not on its list; under autocast, it has no kernel.

    A release that lacks what it replaces is left as it is: an error here would end the import of a program on the CPU.
    """
    if hasattr(public, "_validate_device"):
        _take_the_device()
    if _AUTOCAST not in flex_attention.py_kernels:
        flex_attention.py_impl(_AUTOCAST)(_under_autocast)


def _take_the_device() -> None:
    refuse_others = public._validate_device

    @functools.wraps(refuse_others)
    def _validate_device(query: Tensor, key: Tensor, value: Tensor) -> None:
        if query.device.type != "openreg":
            refuse_others(query, key, value)

    public._validate_device = _validate_device


def _under_autocast(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Casts what is multiplied, as for CUDA, and calls the operator behind autocast."""
    dtype = torch.get_autocast_dtype("openreg")
    tensors = [_cast(tensor, "openreg", dtype) for tensor in (query, key, value)]
    with torch._C._ExcludeDispatchKeyGuard(DispatchKeySet(_AUTOCAST)):
        result: tuple[Tensor, Tensor, Tensor] = flex_attention(*tensors, *others)
    return result


# LITERALINCLUDE END: flex-register
