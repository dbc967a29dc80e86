"""What the tests of collectives run on every rank. Expected values come from all ranks' inputs, on the CPU."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional_collectives
from torch import Tensor

COMBINE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "SUM": torch.add,
    "AVG": torch.add,
    "PRODUCT": torch.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}
SHAPES: list[tuple[int, ...]] = [(3, 4), (0, 4), (5,)]


def values(rank: int, shape: tuple[int, ...], dtype: torch.dtype, piece: int = 0) -> Tensor:
    """The CPU tensor that a rank contributes: small integers, so that sums are exact in every dtype."""
    generator = torch.Generator().manual_seed(100 * rank + piece)
    return torch.randint(0, 4, shape, generator=generator).to(dtype)


def on_device(host: Tensor, *, strided: bool = False) -> Tensor:
    """A copy on the current device; strided: not contiguous."""
    if not strided:
        return host.to("openreg")
    spread = torch.zeros(*host.shape, 2, dtype=host.dtype, device="openreg")
    spread[..., 0] = host.to("openreg")
    return spread[..., 0]


def same(actual: Tensor, expected: Tensor) -> None:
    """Checks device, dtype and values, exactly."""
    assert actual.device.type == "openreg"
    assert actual.dtype == expected.dtype
    # Through bytes, because not every dtype can be compared.
    host = actual.cpu().contiguous()
    assert torch.equal(host.view(-1).view(torch.uint8), expected.contiguous().view(-1).view(torch.uint8)), (
        host,
        expected,
    )


def reduced(op: str, parts: list[Tensor]) -> Tensor:
    """The expected result of a reduction."""
    if parts[0].dtype == torch.bool:
        bitwise = {"SUM": "BOR", "PRODUCT": "BAND", "MIN": "BAND", "MAX": "BOR"}.get(op, op)
        return reduce(COMBINE[bitwise], parts)
    total = reduce(COMBINE[op], parts)
    if op == "AVG":
        rounding = None if total.is_floating_point() or total.is_complex() else "trunc"
        parts_of = torch.view_as_real(total) if total.is_complex() else total
        parts_of.div_(len(parts), rounding_mode=rounding)
    return total


def reductions(op: str, dtype: torch.dtype, shapes: Sequence[tuple[int, ...]] = SHAPES) -> None:
    """all_reduce, reduce and reduce_scatter in all forms."""
    rank, size = dist.get_rank(), dist.get_world_size()
    operation = getattr(dist.ReduceOp, op)
    for shape in shapes:
        parts = [values(r, shape, dtype) for r in range(size)]
        expected = reduced(op, parts)
        for strided in (False, True):
            tensor = on_device(parts[rank], strided=strided)
            dist.all_reduce(tensor, operation)
            same(tensor, expected)
            tensor = on_device(parts[rank], strided=strided)
            dist.reduce(tensor, dst=1, op=operation)
            same(tensor, expected if rank == 1 else parts[rank])
        pieces = [[values(r, shape, dtype, piece) for piece in range(size)] for r in range(size)]
        mine = reduced(op, [pieces[r][rank] for r in range(size)])
        output = torch.empty(shape, dtype=dtype, device="openreg")
        dist.reduce_scatter(output, [on_device(piece) for piece in pieces[rank]], operation)
        same(output, mine)
        for strided in (False, True):
            output = on_device(torch.zeros(shape, dtype=dtype), strided=strided)
            dist.reduce_scatter_single(output, on_device(torch.cat(pieces[rank]), strided=strided), operation)
            same(output, mine)
        tensors = [on_device(parts[rank]), on_device(parts[rank])]
        with dist.distributed_c10d._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor, operation)
        for tensor in tensors:
            same(tensor, expected)
    scalar = on_device(values(rank, (), dtype))
    dist.all_reduce(scalar, operation)
    same(scalar, reduced(op, [values(r, (), dtype) for r in range(size)]))


def moves(dtype: torch.dtype) -> None:
    """All collectives that only move values."""
    for shape in SHAPES:
        for strided in (False, True):
            move(dtype, shape, strided)
    rank, size = dist.get_rank(), dist.get_world_size()
    scalar = on_device(values(rank, (), dtype))
    dist.broadcast(scalar, src=1)
    same(scalar, values(1, (), dtype))
    rows = [[1 + (source + target) % 2 for target in range(size)] for source in range(size)]
    sent = values(rank, (sum(rows[rank]), 3), dtype)
    into = [rows[source][rank] for source in range(size)]
    output = torch.empty(sum(into), 3, dtype=dtype, device="openreg")
    dist.all_to_all_single(output, on_device(sent), into, rows[rank])
    expected = [values(r, (sum(rows[r]), 3), dtype).split(rows[r])[rank] for r in range(size)]
    same(output, torch.cat(expected))


def move(dtype: torch.dtype, shape: tuple[int, ...], strided: bool) -> None:
    """Each collective that only moves values, of tensors of a shape."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [values(r, shape, dtype) for r in range(size)]
    whole = torch.cat(parts)
    pieces = [[values(r, shape, dtype, piece) for piece in range(size)] for r in range(size)]

    def empty(*lead: int) -> Tensor:
        return on_device(torch.zeros(*lead, *shape, dtype=dtype), strided=strided)

    mine = on_device(parts[rank], strided=strided)
    root = mine.clone()
    dist.broadcast(root, src=1)
    same(root, parts[1])

    outputs = [empty() for _ in range(size)]
    dist.all_gather(outputs, mine)
    for output, part in zip(outputs, parts, strict=True):
        same(output, part)
    output = on_device(torch.zeros_like(whole), strided=strided)
    dist.all_gather_single(output, mine)
    same(output, whole)

    gathered = [empty() for _ in range(size)] if rank == 1 else None
    dist.gather(mine, gathered, dst=1)
    for output, part in zip(gathered or [], parts, strict=False):
        same(output, part)
    output = empty()
    dist.scatter(output, [on_device(p, strided=strided) for p in pieces[0]] if rank == 0 else None, src=0)
    same(output, pieces[0][rank])

    outputs = [empty() for _ in range(size)]
    dist.all_to_all(outputs, [on_device(p, strided=strided) for p in pieces[rank]])
    for r, output in enumerate(outputs):
        same(output, pieces[r][rank])
    output = on_device(torch.zeros_like(whole), strided=strided)
    dist.all_to_all_single(output, on_device(torch.cat(pieces[rank]), strided=strided))
    same(output, torch.cat([pieces[r][rank] for r in range(size)]))

    after, before = (rank + 1) % size, (rank - 1) % size
    output = empty()
    works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, output, before), dist.P2POp(dist.isend, mine, after)])
    for work in works:
        work.wait()
    same(output, parts[before])


def strided_and_small() -> None:
    """Exchanges of one element or none, whose stride is not 1 although PyTorch calls them contiguous."""
    rank, size = dist.get_rank(), dist.get_world_size()
    number = torch.tensor(3.0 + rank).to("openreg")
    column = torch.full((1, 2), 3.0 + rank).to("openreg")[:, 0]
    outputs = torch.zeros(size, 2, device="openreg")
    for sent in (number.expand(1), column):
        into = [outputs[r : r + 1, 0] for r in range(size)]
        dist.all_to_all(into, [sent] * size)
        same(outputs[:, 0], 3.0 + torch.arange(float(size)))
    # Rank 0 has a row for the last rank alone.
    rows = torch.full((size if rank else 1, 2), float(rank)).to("openreg")[:, 0]
    sizes = [1] * size if rank else [*[0] * (size - 1), 1]
    came = [0 if r == 0 and rank < size - 1 else 1 for r in range(size)]
    output = torch.zeros(sum(came), device="openreg")
    dist.all_to_all_single(output, rows, came, sizes)
    same(output, torch.tensor([float(r) for r in range(size) if came[r]]))
    nothing = torch.zeros(0, 2, device="openreg")[:, 0]
    dist.all_to_all_single(nothing.clone(), nothing, [0] * size, [0] * size)


def started_by_a_receive() -> None:
    """A callback of a message cannot start a collective, and the group goes on."""
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    message = torch.zeros(3, device="openreg")
    receive = dist.irecv(message, before)
    started = receive.get_future().then(lambda _: dist.all_reduce(message, async_op=True))
    dist.barrier()  # no message has been sent, so the callback is not called by `then`
    send = dist.isend(torch.full((3,), float(rank), device="openreg"), after)
    try:
        started.wait()
    except RuntimeError as error:
        assert "cannot start in a callback of a send or receive of its process group" in str(error)  # noqa: PT017
    else:
        raise AssertionError("the collective has started")
    send.wait()
    receive.wait()
    same(message, torch.full((3,), float(before)))
    dist.all_reduce(message)
    same(message, torch.full((3,), float(sum(range(size)))))


def objects() -> None:
    """Collectives of Python objects, which pickle them into tensors."""
    rank, size = dist.get_rank(), dist.get_world_size()
    everything: list[object] = [None] * size
    dist.all_gather_object(everything, {"rank": rank})
    assert everything == [{"rank": r} for r in range(size)]
    names: list[object] = [f"of {rank}", rank]
    dist.broadcast_object_list(names, src=1, device=torch.device("openreg"))
    assert names == ["of 1", 1]


def functional() -> None:
    """The functional collectives, which return tensors that wait when they are used."""
    rank, size = dist.get_rank(), dist.get_world_size()
    world = dist.group.WORLD
    assert world is not None
    host = values(rank, (size, 2), torch.float32)
    everyone = [values(r, (size, 2), torch.float32) for r in range(size)]
    same(functional_collectives.all_reduce(on_device(host), "sum", world) + 0, reduced("SUM", everyone))
    same(functional_collectives.all_gather_tensor(on_device(host), 0, world) + 0, torch.cat(everyone))
    average = functional_collectives.reduce_scatter_tensor(on_device(host), "avg", 0, world) + 0
    same(average, reduced("AVG", everyone)[rank : rank + 1])
    moved = functional_collectives.all_to_all_single(on_device(host), None, None, world) + 0
    same(moved, torch.stack([everyone[r][rank] for r in range(size)]))
    same(functional_collectives.broadcast(on_device(host), 1, world) + 0, everyone[1])


def premultiplied() -> None:
    """PREMUL_SUM, with a number and with a tensor."""
    rank, size = dist.get_rank(), dist.get_world_size()
    expected = 0.5 * reduced("SUM", [values(r, (3,), torch.float32) for r in range(size)])
    elsewhere = torch.tensor([0.5], device=f"openreg:{torch.openreg.device_count() - 1}")
    for factor in (0.5, torch.tensor([0.5], device="openreg"), torch.tensor([0.5]), elsewhere):
        tensor = on_device(values(rank, (3,), torch.float32))
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
        same(tensor, expected)


def mismatched() -> None:
    """Small tensors of different shapes and dtypes in a group that compares before each exchange."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.set_debug_level(dist.DebugLevel.DETAIL)  # as TORCH_DISTRIBUTED_DEBUG, for groups that are created from now on
    group = dist.new_group(range(size))
    dtype = (torch.float32, torch.int32)[rank % 2]
    for tensor in (torch.ones(4 + rank, device="openreg"), torch.ones(4, dtype=dtype, device="openreg")):
        said = ""
        try:
            dist.all_reduce(tensor, group=group)
        except RuntimeError as error:
            said = str(error)
        assert "Detected mismatch between collectives" in said
    tensor = torch.ones(4, device="openreg")
    dist.all_reduce(tensor, group=group)  # the group goes on
    assert tensor.tolist() == [float(size)] * 4


def tagged() -> None:
    """Receives in another order than the sends: a pending receive must not hold up a later one."""
    rank = dist.get_rank()
    if rank == 0:
        outputs = [torch.empty(4, device="openreg") for _ in range(3)]
        works = [dist.irecv(output, src=1, tag=tag) for tag, output in enumerate(outputs)]
        for tag in (2, 0, 1):
            works[tag].wait()
            assert works[tag]._source_rank() == 1
            same(outputs[tag], torch.full((4,), float(tag)))
            dist.send(outputs[tag], dst=1, tag=10 + tag)
    elif rank == 1:
        for tag in (2, 0, 1):
            dist.send(torch.full((4,), float(tag), device="openreg"), dst=0, tag=tag)
            answer = torch.empty(4, device="openreg")
            dist.recv(answer, src=0, tag=10 + tag)
            same(answer, torch.full((4,), float(tag)))


def from_any() -> None:
    """A receive without a source returns the rank that sent."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            output = torch.empty(2, device="openreg")
            source = dist.recv(output)
            same(output, torch.full((2,), float(source)))
            seen.add(source)
        assert seen == set(range(1, size))
    else:
        dist.send(torch.full((2,), float(rank), device="openreg"), dst=0)
    dist.barrier()


def works() -> None:
    """What a Work says of itself."""
    size = dist.get_world_size()
    tensor = torch.ones(3, device="openreg")
    work = dist.all_reduce(tensor, async_op=True)
    assert work.wait()
    torch.openreg.synchronize()
    assert work.is_completed()
    assert work.is_success()
    same(tensor, torch.full((3,), float(size)))
    backend = dist.group.WORLD._get_backend(torch.device("openreg"))
    before = backend._get_sequence_number_for_group()
    dist.barrier()
    dist.all_reduce(tensor)
    assert backend._get_sequence_number_for_group() == before + 1  # the barrier was the CPU group's


def chained(numel: int = 1000) -> None:
    """A callback runs in the order of the streams, as DDP's communication hooks do."""
    size = dist.get_world_size()
    tensor = torch.ones(numel, device="openreg")
    future = dist.all_reduce(tensor, async_op=True).get_future()
    future = future.then(lambda done: done.value()[0] * 2)
    same(future.wait(), torch.full((numel,), 2.0 * size))


def nested(numel: int = 1000) -> None:
    """A callback that waits for another collective, as those of the PowerSGD hook do."""
    rank, size = dist.get_rank(), dist.get_world_size()
    first, second = torch.ones(2, numel, device="openreg")
    dist.all_reduce(first)
    if rank == 1:
        time.sleep(0.3)  # so that the others have added the callback by then
    future = dist.all_reduce(first, async_op=True).get_future()
    future = future.then(lambda _: dist.all_reduce(second, async_op=True).get_future().wait()[0])
    same(future.wait(), torch.full((numel,), float(size)))


def started_by_callbacks(numel: int = 1000) -> None:
    """Callbacks that start collectives, each of them late on another rank."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def start_another(turn: int) -> Callable[[object], Tensor]:
        def callback(_: object) -> Tensor:
            if rank == turn % size:
                time.sleep(0.1)
            tensor = torch.full((numel,), 10.0**turn, device="openreg")
            dist.all_reduce(tensor)
            return tensor

        return callback

    futures = []
    for turn in range(4):
        work = dist.all_reduce(torch.ones(numel, device="openreg"), async_op=True)
        futures.append(work.get_future().then(start_another(turn)))
    for turn, future in enumerate(futures):
        same(future.wait(), torch.full((numel,), 10.0**turn * size))


def added_late(numel: int = 1000) -> None:
    """A rank whose collective has ended runs a callback where it adds it; those of the others run on another thread."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for late in range(size):

        def callback(_: object, late: int = late) -> Tensor:
            if rank != late:
                time.sleep(0.1)  # so that the program has gone on by then
            tensor = torch.full((numel,), 10.0, device="openreg")
            dist.all_reduce(tensor)
            return tensor

        work = dist.all_reduce(torch.ones(numel, device="openreg"), async_op=True)
        if rank == late:
            work.wait()
        future = work.get_future().then(callback)
        after = torch.ones(numel, device="openreg")
        dist.all_reduce(after)
        same(after, torch.full((numel,), float(size)))
        same(future.wait(), torch.full((numel,), 10.0 * size))


def nested_twice(numel: int = 1000) -> None:
    """A callback starts two collectives and waits for neither; the first has a callback that starts another one."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = [torch.full((numel,), 10.0**turn, device="openreg") for turn in range(7)]

    def start(turn: int) -> dist.Work:
        work: dist.Work = dist.all_reduce(tensors[turn], async_op=True)
        return work

    def innermost(_: object) -> None:
        if rank == 0:
            time.sleep(0.1)
        start(2).wait()

    def inner(_: object) -> None:
        work = start(1)
        if rank == 1:
            work.wait()
        work.get_future().then(innermost)
        start(3)

    chain = start(0).get_future().then(inner)
    if rank == size - 1:
        chain.wait()
    chain.then(lambda _: start(4).wait())
    start(5)
    start(6).wait()
    for turn, tensor in enumerate(tensors):
        same(tensor, torch.full((numel,), 10.0**turn * size))


def waits_for_a_later_one(numel: int = 1000) -> None:
    """A callback that waits for what cannot start before it returns gets an error, and everything goes on."""
    rank, size = dist.get_rank(), dist.get_world_size()
    is_called = threading.Event()
    later: list[dist.Work] = []
    messages: list[str] = []
    tensors = [torch.full((numel,), 10.0**turn, device="openreg") for turn in range(5)]

    def wait() -> None:
        if rank == 1:
            return  # its callback may run where it is added, before the program calls the later one
        is_called.wait(10)
        try:
            later[0].wait()
        except RuntimeError as error:
            messages.append(str(error))

    def inner(_: object) -> None:
        wait()
        dist.all_reduce(tensors[2])

    def callback(_: object) -> None:
        wait()
        first.wait()
        work = dist.all_reduce(tensors[1], async_op=True)
        work.get_future().then(inner)
        dist.all_reduce(tensors[3])

    dist.all_reduce(torch.zeros(numel, device="openreg"))
    if rank == 1:
        time.sleep(0.3)  # so that the others have added the callback before their collective ends
    first = dist.all_reduce(tensors[0], async_op=True)
    future = first.get_future().then(callback)
    later.append(dist.all_reduce(tensors[4], async_op=True))
    is_called.set()
    future.wait()
    later[0].wait()
    for turn, tensor in enumerate(tensors):
        same(tensor, torch.full((numel,), 10.0**turn * size))
    assert len(messages) == (0 if rank == 1 else 2)
    for message in messages:
        assert "cannot start before that callback has returned; wait in the program" in message


def failing_callbacks() -> None:
    """A callback that raises holds up nothing: neither other callbacks nor what the program starts."""
    size = dist.get_world_size()
    work = dist.all_reduce(torch.ones(2, device="openreg"), async_op=True)
    failed = work.get_future().then(lambda _: 1 / 0)
    total = torch.ones(2, device="openreg")
    dist.all_reduce(total)
    same(total, torch.full((2,), float(size)))
    try:
        failed.wait()
    except RuntimeError as error:
        assert "ZeroDivisionError" in str(error)  # noqa: PT017 - there is no pytest on a rank
    else:
        raise AssertionError("the callback has not raised")


MUCH = 2_000_000  # elements, whose copy takes longer than what the host does meanwhile


def polled(numel: int = MUCH) -> None:
    """A caller that polls, and waits for nothing, reads the results."""
    size = dist.get_world_size()
    for value in (1.0, 2.0):
        tensor = torch.full((numel,), value, device="openreg")
        torch.openreg.synchronize()
        work = dist.all_reduce(tensor, async_op=True)
        while not work.is_completed():
            time.sleep(0.0005)
        assert tensor[-1].item() == value * size
        assert work.is_success()


def batched(numel: int = MUCH) -> None:
    """Several operations with one Work: a caller polls it, or waits for its future, which has all results."""
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    for by_future in (True, False):
        sent = torch.full((numel,), rank + 1.0, device="openreg")
        received = torch.zeros(numel, device="openreg")
        torch.openreg.synchronize()
        with dist.distributed_c10d._coalescing_manager(device=sent.device, async_ops=True) as manager:
            dist.isend(sent, after)
            dist.irecv(received, before)
        (work,) = manager.works
        if by_future:
            results = work.get_future().wait()
            assert [result.data_ptr() for result in results] == [sent.data_ptr(), received.data_ptr()]
        else:
            while not work.is_completed():
                time.sleep(0.0005)
        assert received[-1].item() == before + 1.0
        work.wait()
        torch.openreg.synchronize()
        assert work.is_success()


def batched_beside_a_callback() -> None:
    """The one Work of a batch leaves out what a callback starts meanwhile."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = torch.full((4, 2), float(rank), device="openreg")

    def callback(_: object) -> None:
        time.sleep(0.1)
        dist.broadcast(tensors[1], src=1)  # Python itself would collect all_reduce

    future = dist.all_reduce(tensors[0], async_op=True).get_future().then(callback)
    with dist.distributed_c10d._coalescing_manager(device=tensors.device, async_ops=True) as manager:
        dist.isend(tensors[2], (rank + 1) % size)
        time.sleep(0.2)
        dist.irecv(tensors[3], (rank - 1) % size)
    assert len(manager.works[0].get_future().wait()) == 2
    future.wait()
    same(tensors[1], torch.ones(2))


def after_a_failed_batch() -> None:
    """A batch of which one operation raises at the call, and the next one."""
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    expanded = torch.zeros((), device="openreg").expand(2)
    for _ in range(2):
        try:
            dist.batch_isend_irecv([dist.P2POp(dist.irecv, expanded, before)])
        except ValueError as error:
            assert "recv: elements of a result share memory" in str(error)  # noqa: PT017 - there is no pytest on a rank
        else:
            raise AssertionError("received in memory that several elements share")
    total = torch.ones(2, device="openreg")
    dist.all_reduce(total)
    same(total, torch.full((2,), float(size)))
    output = torch.zeros(2, device="openreg")
    mine = torch.full((2,), float(rank), device="openreg")
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, output, before)]):
        work.wait()
    same(output, torch.full((2,), float(before)))


def expanded_inputs(numel: int = 4) -> None:
    """Elements that share memory can be read: a rank that only reads a tensor may have an expanded one."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = torch.tensor(float(rank), device="openreg").expand(numel)
    output = torch.empty(size * numel, device="openreg")
    dist.all_gather_single(output, mine)
    same(output, torch.arange(float(size)).repeat_interleave(numel))
    tensor = mine if rank == 1 else torch.zeros(numel, device="openreg")
    dist.broadcast(tensor, src=1)
    same(tensor, torch.ones(numel))
    tensor = mine.contiguous() if rank == 1 else mine
    dist.reduce(tensor, dst=1)
    same(tensor, torch.full((numel,), size * (size - 1) / 2 if rank == 1 else float(rank)))


def imported(numel: int = MUCH) -> None:
    """Memory of another library, whose last tensor the program drops at once: its owner knows of no stream."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(2):
        owner = torch.ones(numel, device="openreg")
        torch.openreg.synchronize()
        tensor = torch.from_dlpack(owner.__dlpack__())
        del owner
        outputs = [torch.zeros(numel, device="openreg") for _ in range(size)]
        torch.openreg.synchronize()
        work = dist.all_gather(outputs, tensor, async_op=True)
        del tensor
        torch.full((numel,), 7.0, device="openreg")  # in the same memory, if it was freed
        work.wait()
        same(outputs[rank], torch.ones(numel))
    result = torch.from_dlpack(torch.ones(numel, device="openreg").__dlpack__())
    dist.all_reduce(result)
    same(result, torch.full((numel,), float(size)))


def ordered(numel: int = 1000) -> None:
    """The collective reads what queued work writes, and its result comes before work queued after wait()."""
    size = dist.get_world_size()
    for stream in (torch.accelerator.current_stream(), torch.Stream("openreg")):
        with stream:
            tensor = torch.zeros(numel, device="openreg")
            torch.openreg._sleep(30_000_000)
            tensor += 1
            work = dist.all_reduce(tensor, async_op=True)
            if OFFERS_QUEUE:
                assert not work.is_completed()
            work.wait()
            tensor *= 3
            same(tensor, torch.full((numel,), 3.0 * size))


OFFERS_QUEUE = os.environ.get("OPENREG_LAUNCH") == "async"


def dropped(numel: int = 4096) -> None:
    """Tensors whose last reference goes before the operation has ended."""
    size = dist.get_world_size()
    works = []
    kept = torch.zeros(8, numel, device="openreg")
    for row in range(8):
        source = torch.full((numel,), float(row), device="openreg")
        works.append(dist.all_reduce(source, async_op=True))
        works.append(dist.all_gather(list(torch.empty(size, numel, device="openreg")), source, async_op=True))
        works.append(dist.all_gather_single(torch.empty(size * numel, device="openreg"), source, async_op=True))
        del source
        torch.full((numel,), -1.0, device="openreg")
        kept[row] = row
    for work in works:
        work.wait()
    same(kept, torch.arange(8.0)[:, None].expand(8, numel))


def in_inference_mode() -> None:
    """Operations whose tensors, on the device and on the host, are made in inference mode."""
    with torch.inference_mode():
        for op in ("SUM", "AVG", "MAX"):
            reductions(op, torch.float32)
        moves(torch.float32)
        objects()
        anyone = torch.zeros(1, dtype=torch.bool, device="openreg")
        ones = torch.ones(dist.get_world_size(), dtype=torch.bool, device="openreg")
        dist.reduce_scatter_single(anyone, ones, dist.ReduceOp.MAX)
        assert anyone.item()
        many = [torch.empty(200_000, device="openreg") for _ in range(dist.get_world_size())]
        dist.all_gather(many, torch.full((200_000,), float(dist.get_rank()), device="openreg"))
        assert [part[-1].item() for part in many] == list(range(dist.get_world_size()))


def split_again() -> None:
    """Groups of the same ranks are created, used and destroyed repeatedly, by ranks that come at different times."""
    everyone = list(range(dist.get_world_size()))
    device = torch.device("openreg", torch.openreg.current_device())
    options: dict[str, Any] = {"backend": "staged", "timeout": timedelta(seconds=10)}  # of Gloo alone, groups get lost
    parent = dist.new_group(everyone, device_id=device, **options)
    for _ in range(3):
        time.sleep(0.3 * dist.get_rank())
        part = dist.split_group(parent, [everyone], timeout=timedelta(seconds=10))
        same_ranks = dist.new_group(everyone, use_local_synchronization=True, **options)
        for group in (part, same_ranks):
            tensor = torch.ones(3, device="openreg")
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [len(everyone)] * 3
            dist.destroy_process_group(group)


def split_without_some() -> None:
    """Groups are split off by calls that leave out different ranks, also by device meshes with `device_id`."""
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("openreg", torch.openreg.current_device())
    # Of Gloo alone, groups get lost.
    parent = dist.new_group(range(size), backend="staged", timeout=timedelta(seconds=10), device_id=device)
    for ranks in ([0], [0, 1], [0, 1], [1], [size - 1, 0], [0, 1]):
        group = dist.split_group(parent, [ranks], timeout=timedelta(seconds=10))
        if rank in ranks:
            tensor = torch.ones(3, device="openreg")
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [len(ranks)] * 3


def barrier_of_a_group_with_a_device() -> None:
    """It waits for the device of the group, and not for the current one."""
    bound, everyone = torch.device("openreg:1"), range(dist.get_world_size())
    group = dist.new_group(everyone, backend="staged", timeout=timedelta(seconds=10), device_id=bound)
    torch.openreg.set_device(0)
    with torch.openreg.device(1):
        torch.openreg._sleep(300_000_000)
        event = torch.Event(bound)
        event.record()
    dist.barrier(group=group)
    assert event.query()


def subgroup() -> None:
    """A group of some of the ranks."""
    rank = dist.get_rank()
    group = dist.new_group([0, 1])
    tensor = torch.ones(2, device="openreg")
    if rank < 2:
        dist.all_reduce(tensor, group=group)
        same(tensor, torch.full((2,), 2.0))
        dist.destroy_process_group(group)
