"""Fused attention of distributed tensors, compared with that of the whole tensors on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from tests.distributed.ranks import Ranks, ranks

pytestmark = pytest.mark.needs("host kernels")


@pytest.fixture(scope="module")
def two() -> Iterator[Ranks]:
    with ranks(2) as started:
        yield started


def sharded_attention(kind: str) -> list[tuple[Tensor, Tensor]]:
    """Attention of DTensors and its gradients, for each placement of its inputs, beside those of the whole tensors."""
    mesh = init_device_mesh("openreg", (dist.get_world_size(),))
    generator = torch.Generator().manual_seed(3)
    heads = 2 if "few heads" in kind else 4
    batch = () if "no batch" in kind else (4,)
    whole = [torch.randn(*batch, count, 6, 8, generator=generator) for count in (4, heads, heads)]
    sizes = {"mask": (4, 4, 6, 6), "mask of heads": (4, 6, 6), "mask of batches": (4, 1, 6, 6), "mask of all": (6, 6)}
    sizes["no batch, mask"] = (4, 6, 6)
    mask = torch.randn(sizes[kind], generator=generator) if kind in sizes else None
    options: dict[str, Any] = {"enable_gqa": True} if "few heads" in kind else {"is_causal": mask is None}

    def attend(inputs: Sequence[Tensor], mask: Tensor | None) -> list[Tensor]:
        leaves = query, key, value = [tensor.detach().requires_grad_() for tensor in inputs]
        output = nn.functional.scaled_dot_product_attention(query, key, value, mask, **options)
        grads = torch.autograd.grad(output.square().sum(), leaves)
        return [result.detach() for result in (output, *grads)]

    found = []
    expected = attend(whole, mask)
    for place in (Replicate(), *map(Shard, range(len(batch) + 2))):
        parts = [distribute_tensor(tensor.to("openreg"), mesh, [place]) for tensor in whole]
        spread = None if mask is None else distribute_tensor(mask.to("openreg"), mesh, [Replicate()])
        for actual, value in zip(attend(parts, spread), expected, strict=True):
            assert isinstance(actual, DTensor)
            found.append((actual.full_tensor().cpu(), value))
    return found


@pytest.mark.parametrize(
    "kind",
    [
        *("plain", "few heads", "mask", "mask of heads", "mask of batches", "mask of all"),
        *("no batch", "no batch, few heads", "no batch, mask"),
    ],
)
def test_attention_of_sharded_tensors(two: Ranks, kind: str) -> None:
    for pairs in two(sharded_attention, kind):
        assert len(pairs) == (12 if "no batch" in kind else 16)
        for actual, expected in pairs:
            torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
