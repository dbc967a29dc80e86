"""Operators that do not write what they should change: rows with a large norm, and running statistics."""

from __future__ import annotations

from typing import Any

import torch

from tests.conformance.broken.kernels import kernel


@kernel("embedding_renorm_")
def embedding_renorm_(weight: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float) -> torch.Tensor:
    return weight


@kernel("native_batch_norm")
def native_batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor | None,
    var: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    given: list[Any] = [None if each is None else each.cpu() for each in (x, weight, bias, mean, var)]
    given += [training, momentum, eps]
    first, second, third = (result.to(x.device) for result in torch.native_batch_norm(*given))
    return first, second, third
