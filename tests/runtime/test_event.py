from __future__ import annotations

import threading

import pytest
import torch

from tests import offers
from tests.offers import LAST_DEVICE
from tests.runtime.busy import held, sleep_on, time_at_driver


def test_an_event_has_passed_when_the_work_before_it_is_done() -> None:
    stream = torch.Stream("openreg:0")
    event = torch.Event("openreg:0")
    assert event.query()  # never recorded: nothing to wait for
    sleep_on(stream, 100)
    event.record(stream)
    sleep_on(stream, 100)
    assert not event.query()
    event.synchronize()
    assert event.query()
    assert not stream.query()
    stream.synchronize()


def test_time_between_two_events() -> None:
    stream = torch.Stream("openreg:0")
    start, end = torch.openreg.Event(enable_timing=True), torch.Event("openreg", enable_timing=True)
    start.record(stream)
    sleep_on(stream, 50)
    end.record(stream)
    end.synchronize()
    assert start.elapsed_time(end) >= 50
    assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_an_event_without_timing_has_no_time() -> None:
    start, end = torch.openreg.Event(), torch.openreg.Event()
    start.record()
    end.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(end)


def test_an_event_that_was_not_recorded_has_no_time() -> None:
    start, end = torch.Event("openreg", enable_timing=True), torch.Event("openreg", enable_timing=True)
    start.record()
    with pytest.raises(ValueError, match="Both events must be recorded"):
        start.elapsed_time(end)


@pytest.mark.needs("two devices")
def test_an_event_of_one_device_is_not_recorded_on_another() -> None:
    event = torch.Event("openreg:0")
    event.record(torch.openreg.default_stream(0))
    with pytest.raises(RuntimeError, match="cannot be recorded on"):
        event.record(torch.openreg.default_stream(1))


@pytest.mark.needs("two devices")
def test_an_event_holds_up_a_stream_of_another_device() -> None:
    here, there = torch.Stream("openreg:0"), torch.Stream("openreg:1")
    event = torch.Event("openreg:0")
    x = torch.zeros(10, device="openreg:1")
    torch.accelerator.synchronize(1)
    sleep_on(here, 100)
    event.record(here)
    event.wait(there)
    with there:
        x.copy_(torch.ones(10).pin_memory(), non_blocking=True)
    assert not there.query()
    assert x.tolist() == [0.0] * 10  # on the default stream, which does not wait
    there.synchronize()
    assert event.query()
    assert x.tolist() == [1.0] * 10


def test_an_event_can_be_recorded_again() -> None:
    stream = torch.Stream("openreg:0")
    event = torch.Event("openreg:0")
    for _ in range(3):
        sleep_on(stream, 20)
        event.record(stream)
        assert not event.query()
        event.synchronize()
        assert event.query()


@pytest.mark.parametrize("waiter", ["event", "stream", "accelerator", "module"])
def test_waiting_lets_other_python_threads_run(waiter: str) -> None:
    # A Python function holds the stream, and a Python thread releases it: neither can run if the waiter keeps the GIL.
    stream = torch.Stream("openreg:0")
    with held(stream) as gate:
        event = stream.record_event()
        threading.Timer(0.05, gate.set).start()
        {
            "event": event.synchronize,
            "stream": stream.synchronize,
            "accelerator": lambda: torch.accelerator.synchronize(0),
            "module": lambda: torch.openreg.synchronize(0),
        }[waiter]()
        assert event.query()


@pytest.mark.needs("queue")
@pytest.mark.parametrize("call", ["record", "wait"])
def test_a_full_queue_lets_other_python_threads_run(call: str) -> None:
    stream, other = torch.Stream("openreg:0"), torch.Stream("openreg:0")
    event = torch.Event("openreg", enable_timing=True)
    with held(stream) as gate:
        event.record(stream)
        threading.Timer(0.3, gate.set).start()
        for _ in range(4000):  # more than a queue has room for
            event.record(stream) if call == "record" else other.wait_event(event)
    torch.accelerator.synchronize(0)
    assert event.query()


def test_the_first_record_decides_on_the_device() -> None:
    event = torch.Event(LAST_DEVICE)
    assert event.device == torch.device("openreg")
    assert event.event_id == 0
    event.record()
    assert event.device == torch.device("openreg:0")
    assert torch.Stream(LAST_DEVICE).record_event().device == torch.device(LAST_DEVICE)


def test_only_events_with_timing_take_the_time() -> None:
    plain, timed = torch.Event("openreg"), torch.Event("openreg", enable_timing=True)
    for event in (plain, timed):
        event.record()
        event.synchronize()
    assert time_at_driver(plain) == 1  # orErrorInvalidValue
    assert time_at_driver(timed) == 0


@pytest.mark.needs("two devices")
def test_times_of_two_devices_are_not_compared() -> None:
    here, there = torch.Event("openreg", enable_timing=True), torch.Event("openreg", enable_timing=True)
    here.record(torch.openreg.default_stream(0))
    there.record(torch.openreg.default_stream(1))
    torch.accelerator.synchronize(0)
    torch.accelerator.synchronize(1)
    with pytest.raises(RuntimeError, match="start event belongs to openreg:0 and the end event to openreg:1"):
        here.elapsed_time(there)


def test_an_event_that_has_not_passed_has_no_time() -> None:
    stream = torch.Stream("openreg:0")
    start, end = torch.Event("openreg", enable_timing=True), torch.Event("openreg", enable_timing=True)
    start.record(stream)
    with held(stream):
        end.record(stream)
        with pytest.raises(RuntimeError, match="Both events must be completed"):
            start.elapsed_time(end)


def test_a_destroyed_event_holds_up_who_waits_for_it() -> None:
    stream, far = torch.Stream("openreg:0"), torch.Stream(LAST_DEVICE)
    with held(stream) as gate:
        event = stream.record_event()
        place = event.event_id & 0xFFFFFFF
        event.wait(far)
        del event
        assert not far.query()
        again = stream.record_event()
        assert not offers.is_simulated() or again.event_id & 0xFFFFFFF == place  # free for the next
        gate.set()
        far.synchronize()


@pytest.mark.needs("queue", "two devices")
def test_a_copy_between_devices_is_ordered_on_both_sides() -> None:
    source, target = torch.zeros(4, device="openreg:0"), torch.zeros(4, device="openreg:1")
    one, two = torch.ones(4, device="openreg:0"), torch.full((4,), 2.0, device="openreg:1")
    for busy in (0, 1):
        for tensor in (source, target):
            tensor.zero_()
            torch.accelerator.synchronize(tensor.device)
        with held(torch.openreg.default_stream(busy)) as gate:
            source.copy_(one)
            target.copy_(two)
            target.copy_(source)
            assert [torch.openreg.default_stream(index).query() for index in (0, 1)] == [False, False]
            gate.set()
            assert target.tolist() == [1.0] * 4


def test_events_of_other_processes_are_pytorchs_error() -> None:
    event = torch.Event("openreg", interprocess=True)
    with pytest.raises(NotImplementedError, match=r"torch\.Event ipc is not supported yet"):
        event.ipc_handle()


def test_many_events_leave_nothing_behind() -> None:
    # More than a device can have at a time: each is destroyed with its Python object.
    stream = torch.Stream("openreg:0")
    for _ in range(150_000):
        torch.Event("openreg:0").record(stream)
    assert stream.record_event().query() in {True, False}
