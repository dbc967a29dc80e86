"""Automatic mixed precision: what `torch.autocast("openreg")` needs from the device module."""

from __future__ import annotations

import torch
from torch._ops import _HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS, _higher_order_ops


# LITERALINCLUDE START: amp-supported-dtypes
def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that autocast may cast to on the device. For any other, `torch.autocast` warns and stays disabled.

    PyTorch calls it even if autocast is disabled, for example in `torch.utils.checkpoint`.
    """
    return [torch.float16, torch.bfloat16]


# LITERALINCLUDE END: amp-supported-dtypes


# LITERALINCLUDE START: amp-higher-order
def let_higher_order_operators_through() -> None:
    """Lets the operators that take functions, such as `torch.cond`, through autocast to the keys behind it.

    They are Python's (`torch._ops.HigherOrderOperator`), so the fallthrough of csrc/aten/autocast.cpp does not apply to
    them. PyTorch 2.13 has a list of its own, with the keys of three other devices.
    """
    autocast = torch._C._dispatch_key_parse("AutocastPrivateUse1")
    if autocast in _HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS:
        return
    _HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(autocast)  # for operators that are defined later
    for operator in _higher_order_ops.values():
        operator.fallthrough(autocast)  # type: ignore[no-untyped-call]


# LITERALINCLUDE END: amp-higher-order
