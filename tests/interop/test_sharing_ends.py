"""Processes that end, and what they leave: memory, files, errors in place of hangs; workers of loaders."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.interop.peer import Peer, free_memory, open_files, peer_process
from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.needs("sharing")
INDEX = torch.device(LAST_DEVICE).index


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with peer_process() as other:
        yield other


def test_nothing_is_left_after_a_thousand_sends(peer: Peer) -> None:
    x = torch.ones(1000, device=LAST_DEVICE)

    def exchange(count: int) -> None:
        for _ in range(count):
            peer("double", x)
            peer("double", x.clone())
        peer("drop")

    exchange(20)
    gc.collect()
    figures = lambda: (  # noqa: E731 - three figures of both processes
        _settled(lambda: free_memory(LAST_DEVICE)), open_files(), peer("free_memory", LAST_DEVICE), peer("open_files")
    )  # fmt: skip
    before = figures()
    exchange(500)
    assert figures() == before


def _settled(figure: Any) -> Any:
    """The figure once it no longer changes: a thread drops what was received."""
    previous = None
    while (now := figure()) != previous:
        previous = now
        time.sleep(0.05)
    return now


def test_memory_survives_the_process_that_sent_it() -> None:
    with peer_process() as other:
        x = other("make", 1.0, 2.0, device=LAST_DEVICE)
        other.kill()
        assert x.mul_(2).tolist() == [2, 4]
        del x
        gc.collect()


def test_a_receiver_that_is_killed_leaves_nothing() -> None:
    free = _settled(lambda: free_memory(LAST_DEVICE))
    with peer_process() as other:
        x = torch.ones(1_000_000, device=LAST_DEVICE)
        other("hold", x)
        other.kill()
        assert x.add_(1)[0].item() == 2
        del x
        torch.openreg.empty_cache()
        assert _settled(lambda: free_memory(LAST_DEVICE)) >= free


def test_a_sender_that_is_killed_before_its_tensor_is_read() -> None:
    with peer_process() as other:
        other.send("make", 1.0, device=LAST_DEVICE)
        assert other.connection.poll(60)  # the message has come, and nobody has opened it
        other.kill()
        with pytest.raises(
            RuntimeError, match=r"orErrorInvalidHandle: .*has freed what the handle names, or has ended"
        ):
            other.answer()


@pytest.mark.needs("queue", "kernels")
def test_a_sender_that_ends_with_work_in_flight() -> None:
    with peer_process() as other:
        x = torch.zeros(2, device=LAST_DEVICE).share_memory_()
        event = torch.openreg.InterprocessEvent(LAST_DEVICE)
        other("add_late", x, event)
        other.kill()
        with pytest.raises(RuntimeError, match="has ended before the record passed"):
            event.synchronize()
        assert x.shape == (2,)


def test_forkserver() -> None:
    with peer_process("forkserver") as other:
        x = torch.ones(2, device=LAST_DEVICE)
        other("double", x)
        torch.accelerator.synchronize(INDEX)
        assert x.tolist() == [2, 2]


class _OnDevice(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), float(index), device=LAST_DEVICE)


def test_workers_of_a_loader_return_device_tensors() -> None:
    loader = torch.utils.data.DataLoader(_OnDevice(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    batches = [(str(batch.device), batch.tolist()) for batch in loader]
    assert batches == [(LAST_DEVICE, [[i, i], [i + 1, i + 1]]) for i in (0, 2, 4)]


def test_forked_workers_of_a_loader_are_refused() -> None:
    torch.ones(1, device=LAST_DEVICE)
    loader = torch.utils.data.DataLoader(_OnDevice(), num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match="fork"):
        next(iter(loader))
