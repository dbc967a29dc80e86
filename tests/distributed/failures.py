"""What the tests of failures run on every rank."""

from __future__ import annotations

import multiprocessing.util
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor


def _halves(x: Tensor) -> list[Tensor]:
    return list(x.chunk(dist.get_world_size()))


def _at(rank: int, tensors: list[Tensor]) -> list[Tensor] | None:
    return tensors if dist.get_rank() == rank else None


OPERATIONS: dict[str, Callable[[Tensor], object]] = {
    "all_reduce": lambda x: dist.all_reduce(x, async_op=True),
    "broadcast": lambda x: dist.broadcast(x, src=1, async_op=True),
    "all_gather_single": lambda x: dist.all_gather_single(x, _halves(x)[0].clone(), async_op=True),
    "reduce_scatter_single": lambda x: dist.reduce_scatter_single(_halves(x)[0].clone(), x, async_op=True),
    "all_to_all_single": lambda x: dist.all_to_all_single(torch.empty_like(x), x, async_op=True),
    "all_to_all": lambda x: dist.all_to_all([torch.empty_like(y) for y in _halves(x)], _halves(x), async_op=True),
    "all_gather": lambda x: dist.all_gather([torch.empty_like(x) for _ in _halves(x)], x, async_op=True),
    "reduce": lambda x: dist.reduce(x, dst=0, async_op=True),
    "gather": lambda x: dist.gather(x, _at(0, [torch.empty_like(x) for _ in _halves(x)]), dst=0, async_op=True),
    "scatter": lambda x: dist.scatter(_halves(x)[0].clone(), _at(1, _halves(x)), src=1, async_op=True),
    "reduce_scatter": lambda x: dist.reduce_scatter(_halves(x)[0].clone(), _halves(x), async_op=True),
    "barrier": lambda x: dist.barrier(group=_device_group(), async_op=True),
    "recv": lambda x: dist.irecv(x, src=1) if dist.get_rank() == 0 else None,
}


# Those that exchange large tensors through device memory.
DIRECT = sorted(OPERATIONS.keys() - {"barrier", "recv"})


def _device_group() -> dist.ProcessGroup:
    group: dist.ProcessGroup = dist.new_group(backend="staged")
    return group


def die(operation: str, victim: int, during: bool) -> None:
    """One rank kills itself before it joins the operation, or while it runs: 64 MB take longer than the kill."""
    tensor = torch.ones(1 << (24 if during else 20), device="openreg")
    if during:
        OPERATIONS[operation](tensor).wait()  # The first one sets up what the next one uses.
    if operation == "barrier":
        group = _device_group()
        dist.barrier(group=group)  # Both ranks have the group now: a rank that dies earlier fails its creation.
        work = None
        if dist.get_rank() != victim:
            work = dist.barrier(group=group, async_op=True)
    elif dist.get_rank() != victim or during:
        work = OPERATIONS[operation](tensor)
    if dist.get_rank() == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    work.wait()


def ends_badly() -> None:
    """Rank 1 will end with exit code 5."""
    if dist.get_rank() == 1:
        multiprocessing.util.Finalize(None, os._exit, [5], exitpriority=1)


def late() -> str:
    """Rank 1 does not come."""
    if dist.get_rank() == 1:
        time.sleep(3)
        return ""
    return _message(lambda: dist.all_reduce(torch.ones(3, device="openreg")))


def lost_with_another_under_way() -> tuple[str, float]:
    """Rank 1 is killed while rank 0 waits for it, and for rank 2 in another collective, which does not come."""
    dist.all_reduce(torch.ones(3, device="openreg"))
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if dist.get_rank() == 2:
        time.sleep(4)
        return "", 0.0
    first, _ = (dist.broadcast(torch.ones(3, device="openreg"), root, async_op=True) for root in (1, 2))
    start = time.monotonic()
    return _message(first.wait), time.monotonic() - start


def receives_nothing() -> float:
    """How long the end of the group takes, with a receive that nobody answers."""
    dist.all_reduce(torch.ones(3, device="openreg"))
    dist.irecv(torch.ones(3, device="openreg"), 1 - dist.get_rank())
    start = time.monotonic()
    dist.destroy_process_group()
    return time.monotonic() - start


def after_a_failure() -> str:
    """The operation after one that timed out."""
    if dist.get_rank() == 1:
        time.sleep(3)
        return ""
    _message(lambda: dist.all_reduce(torch.ones(3, device="openreg")))
    return _message(lambda: dist.all_reduce(torch.ones(3, device="openreg")))


def impatient() -> str:
    """Waits for too short a time, and then for long enough."""
    tensor = torch.ones(3, device="openreg")
    if dist.get_rank() == 1:
        time.sleep(0.5)
        dist.all_reduce(tensor)
        return ""
    work = dist.all_reduce(tensor, async_op=True)
    message = _message(lambda: work.wait(timedelta(milliseconds=200)))
    work.wait()
    assert tensor.tolist() == [2, 2, 2]
    return message


def timed_out(numel: int, of_group: bool) -> tuple[str, float]:
    """Rank 1 does not come within a timeout that is not that of the group's creation. Returns what it took, too."""
    tensor = torch.ones(numel, device="openreg")
    dist.all_reduce(tensor)
    timeout = timedelta(seconds=1)
    options = dist.AllreduceOptions()
    if of_group:
        dist.group.WORLD.set_timeout(timeout)
    else:
        options.timeout = timeout
    if dist.get_rank() == 1:
        return "", 0.0
    start = time.monotonic()
    message = _message(lambda: dist.group.WORLD.allreduce([tensor], options).wait())
    return message, time.monotonic() - start


def batch_without_the_other() -> tuple[bool, bool, str]:
    """Rank 1 does not come to a batch. Returns what its one Work says of it."""
    if dist.get_rank() == 1:
        return True, True, ""
    tensor = torch.ones(3, device="openreg")
    with dist.distributed_c10d._coalescing_manager(device=tensor.device, async_ops=True) as manager:
        dist.all_reduce(tensor)
    (work,) = manager.works
    while not work.is_completed():
        time.sleep(0.01)
    return work.is_completed(), work.is_success(), str(work.exception())


def late_once() -> tuple[int, float]:
    """Rank 1 comes too late for the first attempt of rank 0. Returns the attempts, and a sum over both."""
    dist.barrier()
    time.sleep(4 * dist.get_rank())
    attempts = 1
    while True:
        try:
            limit = timedelta(seconds=2.5)
            group = dist.new_group([0, 1], timeout=limit, backend="staged", use_local_synchronization=True)
            break
        except RuntimeError:
            attempts += 1
    tensor = torch.ones(3, device="openreg")
    dist.all_reduce(tensor, group=group)
    return attempts, tensor[0].item()


def last_reference() -> None:
    """Drops a group that has a pending operation, whose tensor its threads let go of."""
    group = dist.new_group(backend="staged", timeout=timedelta(seconds=2))
    backend = group._get_backend(torch.device("openreg"))
    tensor = torch.ones(3, device="openreg")
    dist.all_reduce(tensor, group=group)
    if dist.get_rank() == 1:
        return
    work = dist.all_reduce(tensor, group=group, async_op=True)
    dist.distributed_c10d._abort_process_group(group)
    del work, tensor, group
    del backend


def aborted() -> str:
    """A receive that nobody answers."""
    if dist.get_rank() == 1:
        return ""
    work = dist.irecv(torch.ones(3, device="openreg"), src=1)
    time.sleep(0.1)
    dist.group.WORLD._get_backend(torch.device("openreg")).abort()
    return _message(work.wait)


def captured(numel: int) -> list[str]:
    """A collective and a barrier in a capture: both the graph and the group go on."""
    tensor = torch.ones(numel, device="openreg")
    graph = torch.accelerator.Graph()
    with torch.Stream("openreg"), graph:
        tensor += 1
        here = [torch.openreg.current_device()]
        halved = dist._make_nccl_premul_sum(torch.tensor(0.5))  # a number of the CPU, which a capture could not read
        messages = [_message(lambda: dist.all_reduce(tensor)), _message(lambda: dist.barrier(device_ids=here))]
        messages.append(_message(lambda: dist.all_reduce(tensor, halved)))
        tensor += 1
    graph.replay()
    dist.all_reduce(tensor)
    assert tensor.eq(3 * dist.get_world_size()).all()
    return messages


def destroyed_by_a_callback() -> str:
    """A callback of an operation destroys the group, whose thread runs it."""
    group = dist.new_group(backend="staged")
    messages: list[str] = []

    def destroy(_: object) -> None:
        messages.append(_message(lambda: dist.destroy_process_group(group)))

    work = dist.all_reduce(torch.ones(3, device="openreg"), group=group, async_op=True)
    work.get_future().then(destroy).wait()
    dist.destroy_process_group(group)
    return messages[0]


def ended_by_destroy() -> list[float]:
    """The group is destroyed before a callback has run, which starts a collective of it."""
    group = dist.new_group(backend="staged")
    results: list[float] = []

    def callback(_: object) -> None:
        if dist.get_rank() == 1:
            time.sleep(0.3)
        tensor = torch.ones(2, device="openreg")
        dist.all_reduce(tensor, group=group)
        results.extend(tensor.tolist())

    tensors = torch.ones(2, 3, device="openreg")
    dist.all_reduce(tensors[0], group=group, async_op=True).get_future().then(callback)
    dist.all_reduce(tensors[1], group=group, async_op=True)
    group._get_backend(torch.device("openreg")).shutdown()
    return [*results, *tensors[1].tolist()]


def killed_in_a_callback() -> tuple[list[str], float]:
    """Rank 1 ends in a callback; those of the others wait for the collective that it would have started."""
    tensors = torch.ones(3, 3, device="openreg")

    def callback(_: object) -> None:
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(tensors[1])

    start = time.monotonic()
    future = dist.all_reduce(tensors[0], async_op=True).get_future().then(callback)
    work = dist.all_reduce(tensors[2], async_op=True)
    return [_message(future.wait), _message(work.wait)], time.monotonic() - start


def failed_device(numel: int) -> list[str]:
    """A kernel fails before the collective: its inputs never come. The next one must not be taken for it."""
    tensor = torch.ones(numel, device="openreg")
    dist.all_reduce(tensor)
    if dist.get_rank() == 0:
        torch.openreg.synchronize()
        from tests.offers import library

        library().orInjectFault(1, 0, 1)
        tensor += 1
    return [_message(lambda: dist.all_reduce(tensor)) for _ in range(2)]


def _message(call: Callable[[], object]) -> str:
    try:
        call()
    except (dist.DistBackendError, RuntimeError) as error:
        return str(error).splitlines()[0]
    return "nothing was raised"
