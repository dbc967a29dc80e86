"""empty_strided returns a contiguous tensor, whatever strides are requested."""

from typing import Any

import torch

from tests.conformance.broken.kernels import kernel


@kernel("empty_strided")
def empty_strided(size: list[int], stride: list[int], **options: Any) -> torch.Tensor:
    return torch.empty(size, **options)
