"""Tensors and events that several processes share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp

from tests.interop.capsules import Producer
from tests.interop.peer import Peer, peer_process
from tests.offers import DEVICES, LAST_DEVICE
from torch_openreg import _C

pytestmark = pytest.mark.needs("sharing")
INDEX = torch.device(LAST_DEVICE).index


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with peer_process() as other:
        yield other


def _described(*tensors: torch.Tensor) -> list[Any]:
    return [(str(x.device), x.dtype, tuple(x.shape), x.stride(), x.storage_offset(), x.tolist()) for x in tensors]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.complex64]
)
def test_values_arrive(peer: Peer, device: str, dtype: torch.dtype) -> None:
    x = torch.arange(6).view(2, 3).to(dtype).to(device)
    assert peer("values", x) == _described(x)


def test_views_keep_their_geometry(peer: Peer) -> None:
    x = torch.arange(24.0, device=LAST_DEVICE).view(4, 6)
    views = [x.t(), x[1:, ::2], x[2, 3], x[:0], x.expand(2, 4, 6), torch.empty(0, 3, device=LAST_DEVICE)]
    assert peer("values", *views) == _described(*views)


def test_writes_are_seen_by_both(peer: Peer) -> None:
    x = torch.ones(3, device=LAST_DEVICE)
    view = x[1:]
    peer("hold", x)
    peer("double", view)
    torch.accelerator.synchronize(INDEX)
    assert (x.tolist(), view.tolist()) == ([1, 2, 2], [2, 2])
    x.fill_(7)
    torch.accelerator.synchronize(INDEX)
    assert peer("held") == [[7, 7, 7]]
    peer("drop")


def test_tensors_of_one_storage_share_it_there(peer: Peer) -> None:
    x = torch.arange(4.0, device=LAST_DEVICE)
    peer("hold", x)
    assert peer("share_storage", x[1:], x.view(2, 2))
    assert not peer("share_storage", x, x.clone())
    peer("hold", x[2:])
    peer("double", x)
    assert peer("held") == [[0, 2, 4, 6], [4, 6]]
    peer("drop")


def test_gradients_and_parameters(peer: Peer) -> None:
    leaf = torch.ones(2, device=LAST_DEVICE, requires_grad=True)
    parameter = torch.nn.Parameter(torch.ones(2, device=LAST_DEVICE))
    frozen = torch.nn.Parameter(torch.ones(2, device=LAST_DEVICE), requires_grad=False)
    assert peer("kinds", leaf, parameter, frozen, leaf.detach()) == [
        ("Tensor", True, True, True), ("Parameter", True, True, True), ("Parameter", False, True, True),
        ("Tensor", False, True, True),
    ]  # fmt: skip
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        peer.send("values", leaf * 2)


def test_a_tensor_comes_back_as_itself(peer: Peer) -> None:
    x = torch.ones(2, device=LAST_DEVICE)
    queue = mp.get_context("spawn").SimpleQueue()
    queue.put(x)
    y = queue.get()
    assert (y.data_ptr(), y.untyped_storage()._cdata) == (x.data_ptr(), x.untyped_storage()._cdata)


def test_a_tensor_of_the_other_process(peer: Peer) -> None:
    x = peer("make", 1.0, 2.0, device=LAST_DEVICE)
    assert x.tolist() == [1, 2]
    x.mul_(3)
    torch.accelerator.synchronize(INDEX)
    assert peer("held") == [[3, 6]]
    assert x.is_shared()
    expected = (
        f"^openreg: a tensor on {LAST_DEVICE} that was received from another process cannot be sent on, since only the "
        r"process that allocated the memory can: send tensor.clone\(\)$"
    )
    for call in (lambda: peer.send("hold", x), x.share_memory_):
        with pytest.raises(RuntimeError, match=expected):
            call()
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(1000)
    peer("drop")
    assert x.tolist() == [3, 6]  # the memory outlives its first owner
    assert peer("values", x.clone())[0][-1] == [3, 6]


def test_what_cannot_be_sent_on_is_an_error_there(peer: Peer) -> None:
    with pytest.raises(RuntimeError, match=r"the other process: RuntimeError: openreg: a tensor .* cannot be sent on"):
        peer("resend", torch.ones(2, device=LAST_DEVICE))


def test_sharing_moves_all_tensors_of_a_storage() -> None:
    x = torch.arange(6.0, device=LAST_DEVICE)
    view, before = x[2:], x.data_ptr()
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert (x.is_shared(), view.is_shared(), x.data_ptr() != before) == (True, True, True)
    assert view.data_ptr() == x.data_ptr() + 8
    address = x.data_ptr()
    x.share_memory_()
    assert x.data_ptr() == address
    view.add_(1)
    assert x.tolist() == [0, 1, 3, 4, 5, 6]
    with pytest.raises(RuntimeError, match=r"a storage of 24 bytes on .* is not resizable"):
        x.resize_(100)


def test_every_way_to_share() -> None:
    module = torch.nn.Linear(2, 2, device=LAST_DEVICE)
    assert all(parameter.is_shared() for parameter in module.share_memory().parameters())
    assert torch.UntypedStorage._new_shared(8, device=LAST_DEVICE).is_shared()
    assert torch.empty(0, device=LAST_DEVICE).share_memory_().is_shared()
    assert torch.ones(2).share_memory_().is_shared()
    assert not torch.ones(2).is_shared()


@pytest.mark.needs("queue", "kernels")
def test_sharing_waits_for_writers_on_any_stream() -> None:
    x = torch.zeros(1000, device=LAST_DEVICE)
    torch.accelerator.synchronize(INDEX)
    with torch.Stream(LAST_DEVICE):
        torch.openreg._sleep(100_000_000)
        x.add_(1)
    x.share_memory_()
    assert torch.equal(x.cpu(), torch.ones(1000))


def test_memory_of_another_library_is_refused() -> None:
    memory = torch.ones(2, device=LAST_DEVICE)
    producer = Producer(memory.data_ptr(), (2,), device=INDEX)
    x = torch.from_dlpack(producer)
    with pytest.raises(RuntimeError, match=r"over memory of another library cannot be shared .* share tensor.clone"):
        x.share_memory_()


def test_lazy_bits_are_refused(peer: Peer) -> None:
    x = torch.ones(2, dtype=torch.complex64, device=LAST_DEVICE)
    for lazy in (x.conj(), torch._neg_view(x)):
        with pytest.raises(RuntimeError, match=r"send tensor.resolve_conj\(\).resolve_neg\(\)"):
            peer.send("hold", lazy)


@pytest.mark.needs("queue", "kernels")
def test_the_receivers_stream_waits_for_the_senders(peer: Peer) -> None:
    x = torch.zeros(1000, device=LAST_DEVICE).share_memory_()
    for stream in (torch.openreg.current_stream(LAST_DEVICE), torch.Stream(LAST_DEVICE)):
        with torch.openreg.device(LAST_DEVICE), stream:
            torch.openreg._sleep(200_000_000)
            x.add_(1)
        peer.send("values", x[:1])
        was_queued = not stream.query()
        assert peer.answer()[0][-1] == [x[0].item()]
        assert was_queued


@pytest.mark.needs("queue", "kernels")
def test_events_order_streams_of_two_processes(peer: Peer) -> None:
    x = torch.zeros(2, device=LAST_DEVICE).share_memory_()
    event = torch.openreg.InterprocessEvent(LAST_DEVICE)
    assert event.query()
    peer("add_late", x, event)
    assert not event.query()
    event.wait()
    assert (x * 1).tolist() == [1, 1]
    with torch.openreg.device(LAST_DEVICE):
        torch.openreg._sleep(200_000_000)
        x.add_(1)
        event.record()
    assert peer("wait_and_read", x, event) == (True, [2, 2])
    event.synchronize()
    assert event.query()


def test_events_of_one_process_are_refused(peer: Peer) -> None:
    with pytest.raises(TypeError, match=r"a torch.Event belongs to one process: send a torch.openreg.Interprocess"):
        peer.send("hold", torch.Event(LAST_DEVICE))
    with pytest.raises(ValueError, match="openreg: an event handle has 64 bytes, not 3"):
        torch.openreg.InterprocessEvent.from_ipc_handle(LAST_DEVICE, b"abc")


@pytest.mark.needs("two devices")
def test_an_event_needs_a_stream_of_its_device() -> None:
    for wrong in (256, -129):  # not cut off to 8 bits
        with pytest.raises(RuntimeError, match=f"{wrong}"):
            _C._InterprocessEvent(wrong)
    event = torch.openreg.InterprocessEvent("openreg:1")
    stream = torch.openreg.default_stream("openreg:0")
    for call in (event.record, event.wait):
        with pytest.raises(
            RuntimeError, match=r"an event of openreg:1 cannot be used on .*: use a stream of its device"
        ):
            call(stream)


def test_a_queue_raises_where_it_is_read() -> None:
    queue = mp.get_context("spawn").Queue()
    lazy = torch.ones(2, dtype=torch.complex64, device=LAST_DEVICE).conj()

    def put_and_get() -> None:
        queue.put(lazy)
        with pytest.raises(RuntimeError, match="the sender could not send a value: openreg: a lazily conjugated"):
            queue.get(timeout=30)

    with pytest.warns(UserWarning, match="a Queue cannot send a value, and its receiver raises"):
        put_and_get()
    put_and_get()  # warnings are errors here, and must not keep the receiver waiting
    queue.put(torch.ones(2, device=LAST_DEVICE))
    assert queue.get(timeout=30).tolist() == [1, 1]
    queue.close()
    queue.join_thread()


@pytest.mark.parametrize("device", ["cpu", LAST_DEVICE])
def test_a_pool_of_processes_gives_the_error_to_one_future(device: str) -> None:
    non_leaf = torch.ones(2, device=device, requires_grad=True) * 2
    with ProcessPoolExecutor(1, mp_context=mp.get_context("spawn")) as pool:
        with pytest.raises(RuntimeError, match=r"^Cowardly refusing to serialize non-leaf tensor"):
            pool.submit(str, non_leaf).result(timeout=60)
        assert pool.submit(abs, -1).result(timeout=60) == 1


def test_threads_receive_at_once() -> None:
    queue = mp.get_context("spawn").SimpleQueue()
    x = torch.arange(8.0, device=LAST_DEVICE)
    got: list[torch.Tensor] = []
    threads = [threading.Thread(target=lambda: got.append(queue.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for index in range(8):
        queue.put(x[index])
    for thread in threads:
        thread.join()
    assert sorted(y.item() for y in got) == x.tolist()
