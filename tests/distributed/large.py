"""What the tests of large tensors run on every rank. Small ones go through host memory: on_ranks.py tries them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from tests.distributed import on_ranks
from tests.distributed.on_ranks import on_device, reduced, same, values

NUMEL = 70_001  # of float32: more than what goes through host memory, and no multiple of a number of ranks
SEVERAL_ROUNDS = 5_000_003  # 20 MB of float32: several times what a window takes


def reductions(op: str, dtype: torch.dtype) -> None:
    """all_reduce, reduce and reduce_scatter, of dense and of strided tensors."""
    on_ranks.reductions(op, dtype, [(4 * NUMEL // dtype.itemsize,)])


def moves(dtype: torch.dtype) -> None:
    """All collectives that only move values, of dense and of strided tensors; broadcast from each rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    numel = 4 * NUMEL // dtype.itemsize
    for strided in (False, True):
        on_ranks.move(dtype, (numel,), strided)
        for root in range(size):
            tensor = on_device(values(rank, (numel,), dtype), strided=strided)
            dist.broadcast(tensor, src=root)
            same(tensor, values(root, (numel,), dtype))


def in_several_rounds() -> None:
    """Operations of an odd number of rounds between others: no round overwrites what another rank still reads."""
    rank, size = dist.get_rank(), dist.get_world_size()
    whole = [values(r, (SEVERAL_ROUNDS,), torch.float32) for r in range(size)]
    for numel in (NUMEL, SEVERAL_ROUNDS, NUMEL):
        parts = [part[:numel] for part in whole]
        tensors = [on_device(parts[rank]) for _ in range(4)]
        gathered = torch.empty(size * numel, device="openreg")
        scattered = torch.empty(numel, device="openreg")
        received = torch.empty(numel, device="openreg")
        collected = [torch.empty(numel, device="openreg") for _ in range(size)] if rank == 0 else None
        spread = [on_device(part) for part in parts] if rank == 1 else None
        # Of each rank, the last gets all but one element for each other.
        uneven = [*[1] * (size - 1), numel - size + 1]
        from_each = [uneven[rank]] * size
        exchanged = torch.empty(sum(from_each), device="openreg")
        summed = on_device(parts[rank])
        works = [
            dist.all_reduce(tensors[0], async_op=True),
            dist.broadcast(tensors[1], src=size - 1, async_op=True),
            dist.reduce_scatter_single(scattered, tensors[2].repeat(size), async_op=True),
            dist.all_gather_single(gathered, tensors[3], async_op=True),
            dist.reduce(summed, dst=1, async_op=True),
            dist.gather(tensors[3], collected, dst=0, async_op=True),
            dist.scatter(received, spread, src=1, async_op=True),
            dist.all_to_all_single(exchanged, tensors[3], from_each, uneven, async_op=True),
        ]
        for work in works:
            work.wait()
        same(tensors[0], reduced("SUM", parts))
        same(tensors[1], parts[-1])
        same(scattered, reduced("SUM", parts))
        same(gathered, torch.cat(parts))
        same(summed, reduced("SUM", parts) if rank == 1 else parts[rank])
        for output, part in zip(collected or [], parts, strict=False):
            same(output, part)
        same(received, parts[rank])
        same(exchanged, torch.cat([part.split(uneven)[rank] for part in parts]))


def sums_are_equal_on_all_ranks() -> None:
    """Sums of fractions depend on their order, which is the same for all elements and ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [torch.rand(NUMEL, generator=torch.Generator().manual_seed(r)) * 10**r for r in range(size)]
    tensor = on_device(parts[rank])
    dist.all_reduce(tensor)
    same(tensor, reduced("SUM", parts))


def premultiplied() -> None:
    """PREMUL_SUM, whose factor is applied before the exchange."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [values(r, (NUMEL,), torch.float32) for r in range(size)]
    tensor = on_device(parts[rank])
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    same(tensor, 0.5 * reduced("SUM", parts))
    tensor = on_device(parts[rank])
    dist.reduce(tensor, dst=0, op=dist._make_nccl_premul_sum(0.5))
    same(tensor, 0.5 * reduced("SUM", parts) if rank == 0 else parts[rank])


def in_place() -> None:
    """An input that is a part of the output, or the other way round."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [values(r, (NUMEL,), torch.float32) for r in range(size)]
    for place in (rank, (rank + 1) % size):
        whole = torch.zeros(size, NUMEL, device="openreg")
        whole[place] = on_device(parts[rank])
        torch.openreg.synchronize()
        torch.openreg.reset_peak_memory_stats()
        before = torch.openreg.memory_allocated()
        dist.all_gather_single(whole.view(-1), whole[place])
        if place == rank:  # as in FSDP: the input lies where the output has it
            assert torch.openreg.max_memory_allocated() == before
        same(whole, torch.stack(parts))
        whole[:] = on_device(parts[rank])
        dist.reduce_scatter_single(whole[place], whole.view(-1))
        same(whole[place], reduced("SUM", parts))
        whole[:] = on_device(parts[rank])
        dist.reduce_scatter(whole[place], list(whole))
        same(whole[place], reduced("SUM", parts))
        whole[place] = on_device(parts[rank])
        dist.all_gather(list(whole), whole[place])
        same(whole, torch.stack(parts))
        dist.scatter(whole[place], list(whole) if rank == 0 else None, src=0)
        same(whole[place], parts[rank])
        whole[:] = on_device(torch.stack(parts) + rank)
        dist.all_to_all_single(whole, whole)
        same(whole, torch.stack([parts[rank] + r for r in range(size)]))
        dist.all_to_all(list(whole), list(whole))
        same(whole, torch.stack([parts[r] + rank for r in range(size)]))


def with_requires_grad() -> None:
    """Parameters: the thread of the process group has gradients on."""
    size = dist.get_world_size()
    parameter = torch.nn.Parameter(torch.full((NUMEL,), float(dist.get_rank()), device="openreg"))
    dist.broadcast(parameter.detach(), src=1)
    same(parameter.detach(), torch.ones(NUMEL))
    with torch.no_grad():
        dist.all_reduce(parameter)
    same(parameter.detach(), torch.full((NUMEL,), float(size)))


def lazy_views() -> None:
    """Lists of tensors whose conjugate or negative is yet to be computed, as inputs and as results."""
    rank, size = dist.get_rank(), dist.get_world_size()
    value = torch.full((NUMEL,), complex(rank, 1), dtype=torch.complex64, device="openreg")
    ones = torch.ones(NUMEL, device="openreg")
    summed = torch.empty_like(value)
    dist.reduce_scatter(summed, [value.conj()] * size)
    same(summed, torch.full((NUMEL,), complex(size * (size - 1) / 2, -size), dtype=torch.complex64))
    conjugates = [torch.empty_like(value).conj() for _ in range(size)]
    dist.gather(value, conjugates if rank == 0 else None)
    negatives = [torch._neg_view(torch.empty_like(ones)) for _ in range(size)]
    dist.all_gather(negatives, ones * rank)
    for other in range(size):
        if rank == 0:
            same(conjugates[other], torch.full((NUMEL,), complex(other, 1), dtype=torch.complex64))
        same(negatives[other], torch.full((NUMEL,), float(other)))
    scattered = torch.empty_like(ones)
    dist.scatter(scattered, [torch._neg_view(ones * other) for other in range(size)] if rank == 0 else None)
    same(scattered, torch.full((NUMEL,), -float(rank)))


def on_another_device() -> None:
    """Tensors that are not on the device of the first operation, whose window that rank has."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.all_reduce(torch.ones(NUMEL, device="openreg"))
    other = torch.device("openreg", (torch.openreg.current_device() + 1) % torch.openreg.device_count())
    tensor = torch.zeros(NUMEL, device=other)
    with torch.openreg.device(other):
        torch.openreg._sleep(20_000_000)
        tensor += rank + 1
        dist.all_reduce(tensor)
        same(tensor, torch.full((NUMEL,), size * (size + 1) / 2))


def behind_a_receive() -> None:
    """A pending large operation does not hold up messages."""
    rank = dist.get_rank()
    tensor = torch.ones(NUMEL, device="openreg")
    dist.all_reduce(tensor)
    message = torch.zeros(3, device="openreg")
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        dist.send(message + 1, dst=1)
    else:
        if rank == 1:
            dist.recv(message, src=0)
            same(message, torch.ones(3))
        work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    same(tensor, torch.full((NUMEL,), float(dist.get_world_size() ** 2)))


def pinned_by(group: dist.ProcessGroup | None = None, numel: int = SEVERAL_ROUNDS) -> int:
    """How many blocks of pinned memory a large all_reduce takes."""
    torch.openreg.synchronize()
    before: int = torch.openreg.host_memory_stats()["num_host_alloc"]
    tensor = torch.ones(numel, device="openreg")
    dist.all_reduce(tensor, group=group)
    same(tensor, torch.full((numel,), float(dist.get_world_size())))
    after: int = torch.openreg.host_memory_stats()["num_host_alloc"]
    return after - before


def staged_by_one_rank() -> tuple[int, int]:
    """The pinned memory of two groups; in the second, one rank wants all to go through host memory."""
    direct = pinned_by()
    if dist.get_rank() == 1:
        os.environ["OPENREG_COLLECTIVES"] = "staged"
    group = dist.new_group()
    os.environ.pop("OPENREG_COLLECTIVES", None)
    return direct, pinned_by(group)


def without_memory_for_a_window() -> tuple[str, int]:
    """One rank has no memory for its window: the others must not wait for it. Returns the warnings and pinned_by()."""
    free, _ = torch.openreg.mem_get_info()
    full: list[Tensor] = []
    if dist.get_rank() == 1:
        full.append(torch.empty(free - (12 << 20), dtype=torch.uint8, device="openreg"))
    with tempfile.TemporaryFile() as errors:
        stderr = os.dup(2)
        os.dup2(errors.fileno(), 2)
        try:
            pinned = pinned_by(numel=NUMEL)
        finally:
            os.dup2(stderr, 2)
        errors.seek(0)
        return errors.read().decode(), pinned


def subgroups() -> list[float]:
    """What a group of every rank alone, and one of all ranks, sum up."""
    sums = []
    for members in (*([rank] for rank in range(dist.get_world_size())), None):
        group = dist.new_group(members)
        if members is None or dist.get_rank() in members:
            x = torch.ones(2, device="openreg")
            dist.all_reduce(x, group=group)
            sums.append(x[0].item())
    return sums


def windows_are_released() -> None:
    """A group that is destroyed gives the memory of its window back."""
    torch.openreg.empty_cache()
    before = torch.openreg.mem_get_info()[0]
    group = dist.new_group()
    dist.all_reduce(torch.ones(NUMEL, device="openreg"), group=group)
    _wait_until_free(before - (16 << 20))
    dist.destroy_process_group(group)
    _wait_until_free(before)


def _wait_until_free(expected: int) -> None:
    """Until that much memory is free: a thread of the group lets go of the tensor some time after the wait for it."""
    deadline = time.monotonic() + 10
    while True:
        torch.openreg.synchronize()
        torch.openreg.empty_cache()
        free, _ = torch.openreg.mem_get_info()
        if free == expected or time.monotonic() > deadline:
            assert free == expected
            return
        time.sleep(0.01)


def split() -> list[float]:
    """Two groups of every other rank, by split_group; then one of two ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    halves = [list(range(size))[first::2] for first in (0, 1)]
    group = dist.split_group(split_ranks=halves)
    sums = []
    for numel in (4, NUMEL):
        tensor = torch.full((numel,), float(rank), device="openreg")
        dist.all_reduce(tensor, group=group)
        same(tensor, torch.full((numel,), float(sum(halves[rank % 2]))))
        sums.append(tensor[-1].item())
    pair = dist.split_group(split_ranks=[[0, 1]])
    is_in_pair = isinstance(pair, dist.ProcessGroup)  # else None, or since PyTorch 2.14 GroupMember.NON_GROUP_MEMBER
    assert is_in_pair == (rank < 2)
    if is_in_pair:
        dist.all_reduce(tensor, group=pair)
        sums.append(tensor[-1].item())
    return sums


def _gather(tensor: Tensor, root: int) -> None:
    dist.gather(tensor, [torch.empty_like(tensor) for _ in range(2)] if root == dist.get_rank() else None, dst=root)


DIFFERENT: dict[str, tuple[tuple[Callable[[Tensor], object], Callable[[Tensor], object]], str]] = {
    "operations": (
        (dist.all_reduce, lambda tensor: dist.broadcast(tensor, 0)),
        "all_reduce of 100000 elements of Float by SUM on rank 0, broadcast of 400000 elements of Byte with the root 0",
    ),
    "sizes": (
        (lambda tensor: dist.all_reduce(tensor[:70000]), dist.all_reduce),
        "all_reduce of 70000 elements of Float by SUM on rank 0, all_reduce of 100000 elements of Float by SUM",
    ),
    "dtypes": (
        (dist.all_reduce, lambda tensor: dist.all_reduce(tensor.long())),
        "all_reduce of 100000 elements of Float by SUM on rank 0, all_reduce of 100000 elements of Long by SUM",
    ),
    "reductions": (
        (dist.all_reduce, lambda tensor: dist.all_reduce(tensor, dist.ReduceOp.MAX)),
        "all_reduce of 100000 elements of Float by SUM on rank 0, all_reduce of 100000 elements of Float by MAX",
    ),
    "roots of a gather": (
        (lambda tensor: _gather(tensor, 1), lambda tensor: _gather(tensor, 0)),
        "with the root 1 on rank 0, gather of 400000 elements of Byte with the root 0 on rank 1",
    ),
    "roots": (
        (lambda tensor: dist.broadcast(tensor, 0), lambda tensor: dist.broadcast(tensor, 1)),
        "with the root 0 on rank 0, broadcast of 400000 elements of Byte with the root 1 on rank 1",
    ),
}


def alike() -> None:
    """The ranks call two forms of the same operation."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = torch.full((100000,), float(rank), device="openreg")
    whole = torch.empty(size * len(mine), device="openreg")
    if rank == 0:
        dist.all_gather(list(whole.chunk(size)), mine)
    else:
        dist.all_gather_single(whole, mine)
    same(whole[:: len(mine)], torch.arange(float(size)))


def different(name: str) -> None:
    """The ranks do not call the same."""
    DIFFERENT[name][0][dist.get_rank()](torch.ones(100000, device="openreg"))


def parts_that_do_not_fit() -> None:
    """Rank 0 sends fewer elements than rank 1 expects."""
    rank, size = dist.get_rank(), dist.get_world_size()
    sends = [3] * size if rank > 0 else [3, 2, *[3] * (size - 2)]
    dist.all_to_all_single(
        torch.empty(3 * size, device="openreg"), torch.ones(sum(sends), device="openreg"), [3] * size, sends
    )
    torch.openreg.synchronize()
