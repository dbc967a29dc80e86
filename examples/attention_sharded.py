"""Attention of tensors whose heads are spread over two processes: each computes its own, without a message."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.nn.functional import scaled_dot_product_attention
from torch.testing._internal.distributed.fake_pg import FakeStore


# LITERALINCLUDE START: attention-sharded
def main() -> None:
    """Simulates the two processes one after the other. The process group is a fake: nothing is sent."""
    query, key, value = (torch.randn(2, 4, 6, 8, device="openreg", requires_grad=True) for _ in range(3))
    mask = torch.randn(6, 6, device="openreg")
    expected = scaled_dot_product_attention(query, key, value, mask)
    (gradient,) = torch.autograd.grad(expected.sum(), key)
    for rank in range(2):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=2)
        mesh = dist.device_mesh.init_device_mesh("openreg", (2,))
        heads = slice(2 * rank, 2 * rank + 2)
        q, k, v = (DTensor.from_local(whole[:, heads], mesh, [Shard(1)]) for whole in (query, key, value))
        output = scaled_dot_product_attention(q, k, v, DTensor.from_local(mask, mesh, [Replicate()]))
        with torch.autograd.set_multithreading_enabled(False):  # Python can trace this thread
            (of_part,) = torch.autograd.grad(output.sum(), k)
        print(
            f"process {rank}: heads {heads.start} and {heads.stop - 1} of the whole:",
            torch.allclose(output.to_local(), expected[:, heads], atol=1e-6),
            torch.allclose(of_part.to_local(), gradient[:, heads], atol=1e-6),
            output.placements,
        )
        dist.destroy_process_group()


# LITERALINCLUDE END: attention-sharded

if __name__ == "__main__":
    main()
