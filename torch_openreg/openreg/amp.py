"""Automatic mixed precision: what `torch.autocast("openreg")` needs from the device module."""

from __future__ import annotations

import torch


# LITERALINCLUDE START: amp-supported-dtypes
def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that autocast may cast to on the device. For any other, `torch.autocast` warns and stays disabled.

    PyTorch calls it even if autocast is disabled, for example in `torch.utils.checkpoint`.
    """
    return [torch.float16, torch.bfloat16]


# LITERALINCLUDE END: amp-supported-dtypes
