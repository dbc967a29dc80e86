"""Streams: which one is current, that they are asynchronous, and the order between two of them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from accelerator_conformance.checks import chapter, current_is, level, not_offered, optional

pytestmark = [chapter("stream"), level("usable")]


@pytest.fixture
def new_stream(device: str) -> Callable[..., torch.Stream]:
    """Makes streams of the first device."""

    def make(**options: Any) -> torch.Stream:
        with optional():
            return torch.Stream(f"{device}:0", **options)

    return make


def test_default_stream_is_current(device: str) -> None:
    """A thread starts on stream 0 of its device, the default stream."""
    with optional():
        stream = torch.accelerator.current_stream()
    assert stream.device.type == device
    assert stream.stream_id == 0


def test_new_streams_differ(new_stream: Callable[..., torch.Stream]) -> None:
    """Two new streams differ, and neither is the default stream."""
    first, second = new_stream(), new_stream()
    assert first != second, "two new streams are the same"
    assert torch.accelerator.current_stream() not in (first, second), "a new stream is the default one"


def test_stream_as_context(new_stream: Callable[..., torch.Stream]) -> None:
    """`with stream` makes it current, and restores the one before, even after an exception."""
    before, stream = torch.accelerator.current_stream(), new_stream()
    with contextlib.suppress(KeyError), stream:
        assert torch.accelerator.current_stream() == stream, "the stream of the block is not the current one"
        raise KeyError
    assert torch.accelerator.current_stream() == before


def test_stream_of_another_device(other: torch.device) -> None:
    """`with stream` also enters the stream's device, and leaves it."""
    with optional():
        stream = torch.Stream(other)
    assert stream.device == other
    with stream:
        current_is(other.index)
    current_is(0)


def test_current_stream_is_the_threads_own(new_stream: Callable[..., torch.Stream]) -> None:
    """A new thread starts on the default stream, whatever others have chosen."""
    seen: list[int] = []
    with new_stream():
        thread = threading.Thread(target=lambda: seen.append(torch.accelerator.current_stream().stream_id))
        thread.start()
        thread.join()
    assert seen == [0]


def test_operators_work_on_every_stream(device: str, new_stream: Callable[..., torch.Stream]) -> None:
    """The same operators give the same results on a stream of the pool."""
    with new_stream() as stream:
        result = (torch.arange(12.0, device=device).view(3, 4) * 2).t().sum(0)
    stream.synchronize()
    assert stream.query(), "the stream was synchronized, and query() says that it has work"
    assert result.tolist() == [12, 44, 76]


def test_kernels_do_not_wait(busy: Callable[[float], None], new_stream: Callable[..., torch.Stream]) -> None:
    """A launch returns before its kernel has ended, and query() says so."""
    with new_stream() as stream:
        began = time.monotonic()
        busy(0.3)
        returned = time.monotonic() - began
        assert not stream.query(), "query() says that a stream with a kernel of 0.3 s is done"
    assert returned < 0.2, f"the launch of a kernel of 0.3 s returned after {returned:.2f} s"
    stream.synchronize()
    assert time.monotonic() - began > 0.2, "synchronize() did not wait for the kernel"
    assert stream.query()


def test_streams_do_not_wait_for_each_other(
    device: str, busy: Callable[[float], None], new_stream: Callable[..., torch.Stream]
) -> None:
    """Work on one stream proceeds while another one is busy."""
    x = torch.arange(10.0, device=device)
    torch.accelerator.synchronize()
    occupied, idle = new_stream(), new_stream()
    with occupied:
        busy(0.5)
    with idle:
        total = x.sum().item()
    assert total == 45
    assert not occupied.query(), "a stream waited for another one"
    occupied.synchronize()


def test_wait_stream_orders(
    device: str, busy: Callable[[float], None], new_stream: Callable[..., torch.Stream]
) -> None:
    """After wait_stream, one stream sees what the other has written."""
    producer, consumer = new_stream(), new_stream()
    x, seven = torch.zeros(1000, device=device), torch.full((1000,), 7.0, device=device)
    torch.accelerator.synchronize()
    with producer:
        busy(0.1)
        x.copy_(seven)
    consumer.wait_stream(producer)
    with consumer:
        seen = x.clone()
    consumer.synchronize()
    assert seen.tolist() == [7.0] * 1000, "wait_stream did not wait for what was queued before"


def test_priorities(new_stream: Callable[..., torch.Stream]) -> None:
    """A stream of high priority can be created, and computes."""
    with new_stream(priority=-1) as stream:
        x = torch.ones(4, device=stream.device) + 1
    stream.synchronize()
    assert x.tolist() == [2] * 4


def test_no_stream_of_a_device_that_is_not_there(device: str) -> None:
    """A stream whose device does not exist is refused."""
    with optional():
        torch.Stream(device)
    with pytest.raises((RuntimeError, ValueError, AssertionError)):
        torch.Stream(f"{device}:{torch.accelerator.device_count()}")


def test_no_capture_goes_on(new_stream: Callable[..., torch.Stream]) -> None:
    """`isStreamCapturing`: no stream reports a graph capture if there is none."""
    stream = new_stream()
    assert not stream.is_capturing(), "a stream says that it is being captured into a graph"
    assert not torch.accelerator.current_stream().is_capturing()


def test_native_handle(new_stream: Callable[..., torch.Stream]) -> None:
    """native_handle is the driver's handle of the stream, different for each."""
    first, second = new_stream(), new_stream()
    try:
        handles = {first.native_handle, second.native_handle}
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        not_offered(str(error).partition("\n")[0])
    assert len(handles) == 2
