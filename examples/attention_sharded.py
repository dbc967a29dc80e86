"""Attention of tensors that are spread over two processes: each computes its heads or batches, without a message."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.nn.functional import scaled_dot_product_attention
from torch.testing._internal.distributed.fake_pg import FakeStore

QUERY = (2, 4, 6, 8)  # batches, heads, positions, and the elements of a vector
PROCESSES = 2


# LITERALINCLUDE START: attention-sharded
@dataclass
class Case:
    """The sizes of one attention, and the dimensions along which its tensors are split; None for a whole one."""

    split: int
    query: tuple[int, ...] = QUERY
    key: tuple[int, ...] = QUERY
    mask: tuple[int, ...] = ()
    mask_split: int | None = None


CASES = {
    "heads": Case(1),
    "heads, one mask": Case(1, mask=(6, 6)),
    "heads, a mask for each batch": Case(1, mask=(2, 1, 6, 6)),
    "heads, a mask for each": Case(1, mask=(1, 4, 6, 6), mask_split=1),
    "heads, the same in three dimensions": Case(1, mask=(4, 6, 6), mask_split=0),
    "heads, two for each of the key's": Case(1, key=(2, 2, 6, 8)),
    "batches, a mask for each": Case(0, mask=(2, 1, 6, 6), mask_split=0),
    "batches, no head in common": Case(0, key=(2, 1, 6, 8)),
    "three dimensions": Case(0, query=(4, 6, 8), key=(4, 6, 8)),
}


def part_of(whole: Tensor, rank: int, dim: int | None) -> DTensor:
    """What a process has of a tensor."""
    mesh = dist.device_mesh.init_device_mesh("openreg", (PROCESSES,))
    if dim is None:
        return DTensor.from_local(whole, mesh, [Replicate()])
    return DTensor.from_local(whole.chunk(PROCESSES, dim)[rank], mesh, [Shard(dim)])


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention, in which several heads of the query may share one of the key."""
    return scaled_dot_product_attention(query, key, value, mask, enable_gqa=query.shape != key.shape)


def attend(case: Case) -> None:
    """Simulates the processes one after the other. The process group is a fake: nothing is sent."""
    made = (torch.randn(size, device="openreg", requires_grad=True) for size in (case.query, case.key, case.key))
    whole, masked = list(made), bool(case.mask)
    if masked:
        whole.append(torch.randn(case.mask, device="openreg", requires_grad=case.mask_split is not None))
    expected = attention(*whole)
    wanted = [tensor for tensor in whole if tensor.requires_grad]
    gradients = torch.autograd.grad(expected.sum(), wanted)
    dims = [case.split] * 3 + [case.mask_split] * masked
    for rank in range(PROCESSES):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=PROCESSES)
        parts = [part_of(tensor, rank, dim) for tensor, dim in zip(whole, dims, strict=True)]
        output = attention(*parts)
        with torch.autograd.set_multithreading_enabled(False):  # Python can trace this thread
            found = torch.autograd.grad(output.sum(), [part for part in parts if part.requires_grad])
        for mine, of_all, dim in zip([output, *found], [expected, *gradients], [case.split, *dims], strict=False):
            right = part_of(of_all, rank, dim)
            torch.testing.assert_close(mine.to_local(), right.to_local())
            assert mine.placements == right.placements, mine.placements
        dist.destroy_process_group()


# LITERALINCLUDE END: attention-sharded

if __name__ == "__main__":
    for name, case in CASES.items():
        attend(case)
        print(f"{name}: as the whole")
