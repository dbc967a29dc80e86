"""Automatic mixed precision: what `torch.autocast("openreg")` asks of the device module."""

from __future__ import annotations

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that autocast may use on the device: none, since no operator has an autocast kernel here.

    `torch.autocast("openreg")` then warns, and stays off. PyTorch asks even where autocast is off, for example in
    `torch.utils.checkpoint`.
    """
    return []
