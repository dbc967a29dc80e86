"""Events: record, wait, query, time."""

from __future__ import annotations

import pytest

from tests.driver import openreg as driver
from tests.driver.openreg import DriverError, Error, Kind, lib

FLAGS = [0, driver.EVENT_DISABLE_TIMING]


@pytest.mark.parametrize("flags", FLAGS)
def test_an_event_that_was_never_recorded_has_passed(flags: int) -> None:
    event = driver.event_create(flags)
    driver.check(lib.orEventQuery(event))
    driver.check(lib.orEventSynchronize(event))
    driver.check(lib.orStreamWaitEvent(None, event))


@pytest.mark.parametrize("flags", FLAGS)
def test_query_and_synchronize(flags: int) -> None:
    event, stream = driver.event_create(flags), driver.stream_create()
    driver.sleep(0.3, stream)
    driver.check(lib.orEventRecord(event, stream))
    assert lib.orEventQuery(event) == Error.NOT_READY
    driver.sleep(30, stream)  # work after the record does not hold the event up
    driver.check(lib.orEventSynchronize(event))
    driver.check(lib.orEventQuery(event))


@pytest.mark.parametrize("flags", FLAGS)
def test_an_event_on_an_idle_stream_has_passed_at_once(flags: int) -> None:
    event = driver.event_create(flags)
    driver.check(lib.orEventRecord(event, None))
    driver.check(lib.orEventQuery(event))


@pytest.mark.parametrize("flags", FLAGS)
def test_recording_again_moves_the_event(flags: int) -> None:
    event, first, second = driver.event_create(flags), driver.stream_create(), driver.stream_create()
    driver.check(lib.orEventRecord(event, first))
    driver.check(lib.orEventQuery(event))
    driver.sleep(30, second)
    driver.check(lib.orEventRecord(event, second))
    assert lib.orEventQuery(event) == Error.NOT_READY
    driver.check(lib.orEventRecord(event, first))
    driver.check(lib.orEventQuery(event))


def test_a_wait_goes_by_the_record_at_the_time_of_the_call() -> None:
    event, recorder, waiter = driver.event_create(), driver.stream_create(), driver.stream_create()
    driver.sleep(0.3, recorder)
    driver.check(lib.orEventRecord(event, recorder))
    driver.check(lib.orStreamWaitEvent(waiter, event))
    driver.sleep(30, recorder)
    driver.check(lib.orEventRecord(event, recorder))  # too late for the waiter
    driver.synchronize(waiter)
    assert lib.orEventQuery(event) == Error.NOT_READY


@pytest.mark.needs("two devices")
def test_a_stream_waits_for_an_event_of_another_device() -> None:
    driver.set_device(1)
    event, there = driver.event_create(driver.EVENT_DISABLE_TIMING), driver.malloc(64)
    driver.write(there, b"\0" * 64)
    driver.sleep(0.03)
    driver.check(lib.orMemsetAsync(there, 6, 64, None))
    driver.check(lib.orEventRecord(event, None))
    driver.set_device(0)
    here, stream = driver.malloc(64), driver.stream_create()
    driver.check(lib.orStreamWaitEvent(stream, event))
    driver.check(lib.orMemcpyAsync(here, there, 64, Kind.DEVICE_TO_DEVICE, stream))
    driver.synchronize(stream)
    assert driver.read(here, 64) == b"\6" * 64


def test_a_destroyed_event_still_holds_up_who_waits_for_it() -> None:
    event, recorder, waiter = driver.event_create(), driver.stream_create(), driver.stream_create()
    driver.sleep(0.3, recorder)
    driver.check(lib.orEventRecord(event, recorder))
    driver.check(lib.orStreamWaitEvent(waiter, event))
    driver.check(lib.orEventDestroy(event))
    driver.synchronize(waiter)
    driver.check(lib.orStreamQuery(recorder))
    for error in (lib.orEventQuery(event), lib.orEventDestroy(event), lib.orEventRecord(event, recorder)):
        assert error == Error.INVALID_HANDLE


@pytest.mark.needs("two devices")
def test_recording_on_a_stream_of_another_device() -> None:
    event = driver.event_create()
    driver.set_device(1)
    assert lib.orEventRecord(event, None) == Error.INVALID_VALUE
    assert driver.detail() == (
        "orEventRecord: the event belongs to openreg:0 and the stream to openreg:1; record it on a stream of its own "
        "device"
    )


def test_unknown_flags() -> None:
    with pytest.raises(DriverError) as caught:
        driver.event_create(6)
    assert caught.value.error == Error.INVALID_VALUE
    assert caught.value.detail == (
        "orEventCreateWithFlags: flags 0x6 are unknown; valid are orEventDefault, orEventDisableTiming "
        "and orEventInterprocess"
    )


def test_elapsed_time_measures_the_device() -> None:
    stream = driver.stream_create()
    start, end = driver.event_create(), driver.event_create()
    driver.check(lib.orEventRecord(start, stream))
    driver.sleep(0.3, stream)
    driver.check(lib.orEventRecord(end, stream))
    with pytest.raises(DriverError) as caught:
        driver.elapsed(start, end)
    assert caught.value.error == Error.NOT_READY
    driver.check(lib.orEventSynchronize(end))
    assert driver.elapsed(start, end) >= 300
    assert driver.elapsed(end, start) == -driver.elapsed(start, end)


def test_times_of_one_stream_never_go_back() -> None:
    stream = driver.stream_create()
    events = [driver.event_create() for _ in range(50)]
    for step, event in enumerate(events):
        if step % 10 == 5:
            driver.sleep(0.001, stream)
        driver.check(lib.orEventRecord(event, stream))
    driver.synchronize(stream)
    times = [driver.elapsed(events[0], event) for event in events]
    assert times == sorted(times)


def test_elapsed_time_goes_by_the_last_record() -> None:
    stream = driver.stream_create()
    start, end = driver.event_create(), driver.event_create()
    driver.check(lib.orEventRecord(start, stream))
    driver.check(lib.orEventRecord(end, stream))
    short = driver.elapsed(start, end)
    driver.sleep(0.02, stream)
    driver.check(lib.orEventRecord(end, stream))
    driver.sleep(0.02, stream)
    driver.check(lib.orEventRecord(end, stream))
    driver.synchronize(stream)
    assert driver.elapsed(start, end) >= 40 > short


def test_elapsed_time_needs_timing_and_a_record() -> None:
    recorded, bare, untimed = driver.event_create(), driver.event_create(), driver.event_create(FLAGS[1])
    for event in (recorded, untimed):
        driver.check(lib.orEventRecord(event, None))
    for start, end, text in (
        (recorded, untimed, "the end event was created with orEventDisableTiming"),
        (untimed, recorded, "the start event was created with orEventDisableTiming"),
        (recorded, bare, "the end event was never recorded"),
        (bare, recorded, "the start event was never recorded"),
    ):
        with pytest.raises(DriverError) as caught:
            driver.elapsed(start, end)
        assert caught.value.error == Error.INVALID_VALUE
        assert caught.value.detail == f"orEventElapsedTime: {text}"


@pytest.mark.needs("two devices")
def test_elapsed_time_between_devices() -> None:
    start = driver.event_create()
    driver.check(lib.orEventRecord(start, None))
    driver.set_device(1)
    end = driver.event_create()
    driver.check(lib.orEventRecord(end, None))
    with pytest.raises(DriverError, match="the start event belongs to openreg:0 and the end event to openreg:1"):
        driver.elapsed(start, end)
