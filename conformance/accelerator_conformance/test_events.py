"""Events: when they are done, what waits for them, and the time between two."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from accelerator_conformance.checks import chapter, current_is, level, optional

pytestmark = [chapter("event"), level("usable")]

PENDING = "the event has been synchronized, and query() still says that it is pending"


@pytest.fixture
def new_event(device: str) -> Callable[..., torch.Event]:
    """Makes events of the first device."""

    def make(**options: Any) -> torch.Event:
        with optional():
            event = torch.Event(f"{device}:0", **options)
            torch.accelerator.current_stream()
        return event

    return make


def recorded(event: torch.Event) -> torch.Event:
    """The event, recorded on the current stream."""
    with optional():
        event.record(torch.accelerator.current_stream())
    return event


def test_unrecorded_event_is_done(new_event: Callable[..., torch.Event]) -> None:
    """An event that was never recorded is done, and nothing waits for it."""
    event = new_event()
    assert event.query(), "an event that was never recorded is pending"
    event.synchronize()
    torch.accelerator.current_stream().wait_event(event)
    torch.accelerator.synchronize()


def test_synchronized_event_is_done(device: str, new_event: Callable[..., torch.Event]) -> None:
    """synchronize() returns once all work before the event is done, and query() is true from then on."""
    x = torch.ones(1000, device=device) * 3
    event = recorded(new_event())
    event.synchronize()
    assert event.query(), PENDING
    assert x.sum().item() == 3000


def test_event_is_done_by_itself(new_event: Callable[..., torch.Event]) -> None:
    """An event is done some time after the work before it, even if nothing waits for it."""
    event = recorded(new_event())
    deadline = time.monotonic() + 3
    while not event.query():
        assert time.monotonic() < deadline, "an event on an idle stream is pending after 3 s"
        time.sleep(0.001)


def test_event_behind_a_kernel_is_pending(busy: Callable[[float], None], new_event: Callable[..., torch.Event]) -> None:
    """While a kernel before the event runs, query() is false; synchronize() waits for it."""
    busy(0.3)
    began = time.monotonic()
    event = recorded(new_event())
    assert not event.query(), "an event is done before the kernel in front of it"
    event.synchronize()
    assert time.monotonic() - began > 0.2, "synchronize() did not wait for the kernel"


def test_wait_event_orders(device: str, busy: Callable[[float], None], new_event: Callable[..., torch.Event]) -> None:
    """A stream that waits for an event sees what was written before it."""
    event = new_event()
    producer, consumer = torch.Stream(f"{device}:0"), torch.Stream(f"{device}:0")
    x, seven = torch.zeros(1000, device=device), torch.full((1000,), 7.0, device=device)
    torch.accelerator.synchronize()
    with producer:
        busy(0.1)
        x.copy_(seven)
        event.record(producer)
    began = time.monotonic()
    consumer.wait_event(event)
    assert time.monotonic() - began < 0.08, "wait_event kept the host waiting instead of the stream"
    with consumer:
        seen = x.clone()
    consumer.synchronize()
    assert seen.tolist() == [7.0] * 1000, "wait_event did not wait for what was queued before the event"


def test_event_can_be_recorded_again(busy: Callable[[float], None], new_event: Callable[..., torch.Event]) -> None:
    """An event that is recorded again marks the last record."""
    event = recorded(new_event())
    event.synchronize()
    busy(0.2)
    recorded(event)
    assert not event.query(), "the second record was ignored"
    event.synchronize()
    assert event.query(), PENDING


def test_elapsed_time(busy: Callable[[float], None], new_event: Callable[..., torch.Event]) -> None:
    """elapsed_time is the milliseconds between two events."""
    start, end = new_event(enable_timing=True), new_event(enable_timing=True)
    began = time.monotonic()
    recorded(start)
    busy(0.1)
    recorded(end)
    end.synchronize()
    waited = (time.monotonic() - began) * 1000
    with optional():
        measured = start.elapsed_time(end)
    assert 50 < measured <= waited + 1, f"{measured:.1f} ms for a kernel of 100 ms; the host waited {waited:.1f} ms"


def test_elapsed_time_needs_timing(new_event: Callable[..., torch.Event]) -> None:
    """elapsed_time of events without timing raises."""
    start, end = recorded(new_event()), recorded(new_event())
    end.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        start.elapsed_time(end)


def test_waiting_leaves_python_to_other_threads(
    busy: Callable[[float], None], new_event: Callable[..., torch.Event]
) -> None:
    """While one thread waits in synchronize(), others run."""
    counted = [0]
    stop = threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    busy(0.3)
    event = recorded(new_event())
    before = counted[0]
    event.synchronize()
    during = counted[0] - before
    stop.set()
    thread.join()
    assert during > 5, f"another thread came to run {during} times in 0.3 s: synchronize() holds Python's lock"


def test_destroyed_event_leaves_its_waiters(
    device: str, busy: Callable[[float], None], new_event: Callable[..., torch.Event]
) -> None:
    """An event may be destroyed while a stream waits for it."""
    stream, source = torch.Stream(f"{device}:0"), torch.zeros(4, device=device)
    torch.accelerator.synchronize()
    busy(0.1)
    source.fill_(1)
    event = recorded(new_event())
    stream.wait_event(event)
    del event
    with stream:
        x = source + 1
    stream.synchronize()
    assert x.tolist() == [2] * 4, "a stream went on when the event was destroyed for which it waited"


def test_future_waits_on_the_stream(
    device: str, busy: Callable[[float], None], new_event: Callable[..., torch.Event]
) -> None:
    """A stream that waits for a Future with devices sees its value, although the kernel still runs."""
    new_event()
    producer, consumer = torch.Stream(f"{device}:0"), torch.Stream(f"{device}:0")
    x, seven = torch.zeros(1000, device=device), torch.full((1000,), 7.0, device=device)
    torch.accelerator.synchronize()
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=[torch.device(device, 0)])
    with producer:
        busy(0.1)
        x.copy_(seven)
        future.set_result(x)
    with consumer:
        seen = future.wait().clone()
    consumer.synchronize()
    assert seen.tolist() == [7.0] * 1000, "a stream did not wait for what a Future was given"


@chapter("stream")
def test_callback_of_a_future_has_a_stream(
    device: str, busy: Callable[[float], None], new_event: Callable[..., torch.Event]
) -> None:
    """`getStreamFromGlobalPool`: a callback of a Future runs on a stream of its own, after the work for its value."""
    new_event()
    x, seven = torch.zeros(1000, device=device), torch.full((1000,), 7.0, device=device)
    torch.accelerator.synchronize()
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=[torch.device(device, 0)])
    streams: list[torch.Stream] = []

    def callback(ended: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
        streams.append(torch.accelerator.current_stream())
        return ended.value() + 1

    then = future.then(callback)
    before = torch.accelerator.current_stream()
    busy(0.1)
    x.copy_(seven)
    future.set_result(x)
    assert then.wait().tolist() == [8.0] * 1000, "a callback did not wait for the value of its Future"
    assert streams[0] != before, "a callback runs on the stream of whoever sets the value"
    assert torch.accelerator.current_stream() == before, "a callback left its stream to the caller"


def test_event_of_another_device(other: torch.device) -> None:
    """An event of the second device is recorded there, and a stream of the first can wait for it."""
    with optional():
        event = torch.Event(other)
        event.record(torch.accelerator.current_stream(other))
    torch.accelerator.current_stream(torch.device(other.type, 0)).wait_event(event)
    torch.accelerator.synchronize(0)
    event.synchronize()
    assert event.query(), PENDING
    current_is(0)
