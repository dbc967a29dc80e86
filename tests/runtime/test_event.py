from __future__ import annotations

import threading

import pytest
import torch

from tests.runtime.busy import sleep_on


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


def test_an_event_of_one_device_is_not_recorded_on_another() -> None:
    event = torch.Event("openreg:0")
    event.record(torch.openreg.default_stream(0))
    with pytest.raises(RuntimeError, match="cannot be recorded on"):
        event.record(torch.openreg.default_stream(1))


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
    assert x.tolist() == [0.0] * 10  # on the default stream, which nobody told to wait
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


def test_synchronize_lets_other_python_threads_run() -> None:
    stream = torch.Stream("openreg:0")
    event = torch.Event("openreg:0")
    ran = threading.Event()
    for wait in (event.synchronize, stream.synchronize, lambda: torch.accelerator.synchronize(0)):
        ran.clear()
        sleep_on(stream, 300)
        event.record(stream)
        thread = threading.Thread(target=ran.set)
        thread.start()
        wait()
        assert ran.is_set()
        thread.join()


def test_many_events_leave_nothing_behind() -> None:
    # More than a device can have at a time: each is destroyed with its Python object.
    stream = torch.Stream("openreg:0")
    for _ in range(150_000):
        torch.Event("openreg:0").record(stream)
    assert stream.record_event().query() in {True, False}
