"""A driver that survives a fork, and computes wrong values there."""

import os
from typing import Any

import torch


def ones(*size: int, **_options: Any) -> torch.Tensor:
    return torch.zeros(size)


def replace() -> None:
    torch.ones = ones  # type: ignore[assignment]


os.register_at_fork(after_in_child=replace)
