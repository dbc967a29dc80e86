"""Automatic mixed precision: what `torch.autocast("openreg")` asks of the device module."""

from __future__ import annotations

import torch


# LITERALINCLUDE START: amp-supported-dtypes
def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that autocast may cast to on the device. `torch.autocast` warns about any other, and stays off.

    PyTorch asks even where autocast is off, for example in `torch.utils.checkpoint`.
    """
    return [torch.float16, torch.bfloat16]


# LITERALINCLUDE END: amp-supported-dtypes
