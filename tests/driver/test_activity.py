"""Recording what ran, and when."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.driver import openreg as driver
from tests.driver.openreg import ActivityKind, Error, Fault, Kind, lib


class Seen(NamedTuple):
    """A copy of an orActivity, which is valid only during the callback."""

    kind: int
    name: bytes | None
    device: int
    stream: int
    correlation: int
    begin: int
    end: int
    bytes: int
    copy_kind: int


class Recording:
    """Records until it is stopped."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.users: set[int | None] = set()
        self.callback = driver.ON_ACTIVITY(self.note)
        driver.check(lib.orActivityStart(self.callback, 42))

    def note(self, pointer: ctypes._Pointer[driver.Activity], user: int | None) -> None:
        a = pointer.contents
        times = (a.begin_nanoseconds, a.end_nanoseconds)
        self.seen.append(Seen(a.kind, a.name, a.device, a.stream, a.correlation, *times, a.bytes, a.copy_kind))
        self.users.add(user)

    def stop(self) -> list[Seen]:
        driver.check(lib.orActivityStop())
        return self.seen


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """Stops the recording, also after a failed test."""
    yield
    lib.orActivityStop()
    driver.check(lib.orActivitySetCorrelation(0))


def default_stream(device: int) -> int:
    out = ctypes.c_void_p()
    driver.check(lib.orDeviceGetDefaultStream(ctypes.byref(out), device))
    return out.value or 0


def test_what_ran_is_reported_with_its_times_and_names() -> None:
    loaded = driver.module_load("__kernel void twice(__global int* a) { a[0] *= 2; }")
    stream, a, b = driver.stream_create(), driver.malloc(64), driver.malloc(64)
    before = time.time_ns()
    recording = Recording()
    driver.sleep(0.01, stream)
    driver.launch_function(driver.function(loaded, "twice"), (1,), (1,), driver.pointer(a), stream=stream)
    if driver.has_host_kernels:
        driver.launch(b"in Python", lambda: None, stream)
    driver.check(lib.orMemsetAsync(a, 0, 64, stream))
    driver.check(lib.orFillAsync(a, b"1234", 4, 3, stream))
    driver.check(lib.orMemcpyAsync(b, a, 48, Kind.DEFAULT, stream))
    driver.check(lib.orMemcpy2DAsync(b, 8, a, 8, 4, 2, Kind.DEFAULT, stream))
    driver.check(lib.orMemcpyAsync(b, b"12", 2, Kind.DEFAULT, stream))
    driver.check(lib.orMemcpyAsync(ctypes.create_string_buffer(5), b, 5, Kind.DEFAULT, stream))
    driver.check(lib.orEventRecord(driver.event_create(), stream))
    nothing = driver.HOST_FUNCTION(lambda user: None)
    driver.check(lib.orLaunchHostFunction(stream, nothing, None))
    seen = recording.stop()
    after = time.time_ns()
    kernel, copy, fill = ActivityKind.KERNEL, ActivityKind.MEMCPY, ActivityKind.MEMSET
    assert [(one.kind, one.name, one.bytes) for one in seen] == [
        (kernel, b"sleep", 0),
        (kernel, b"twice", 0),
        *([(kernel, b"in Python", 0)] if driver.has_host_kernels else []),
        (fill, None, 64),
        (fill, None, 12),
        (copy, None, 48),
        (copy, None, 8),
        (copy, None, 2),
        (copy, None, 5),
    ]
    directions = [Kind(one.copy_kind) for one in seen if one.kind == copy]
    assert directions == [Kind.DEVICE_TO_DEVICE] * 2 + [Kind.HOST_TO_DEVICE, Kind.DEVICE_TO_HOST]
    assert {(one.device, one.stream, one.correlation) for one in seen} == {(0, stream, 0)}
    assert recording.users == {42}
    times = [time for one in seen for time in (one.begin, one.end)]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= after
    assert seen[0].end - seen[0].begin >= 10_000_000


def test_small_work_that_runs_on_the_caller_is_reported() -> None:
    a = driver.malloc(8)
    recording = Recording()
    driver.write(a, b"12345678")
    driver.check(lib.orMemset(a, 0, 8))
    last = driver.device_count() - 1
    driver.set_device(last)
    b = driver.malloc(8)
    driver.check(lib.orMemcpy(b, a, 8, Kind.DEFAULT))
    seen = recording.stop()
    assert [(one.device, one.stream, one.bytes) for one in seen] == [
        (0, default_stream(0), 8),
        (0, default_stream(0), 8),
        (last, default_stream(last), 8),
    ]


def test_the_correlation_is_that_of_the_thread_at_the_launch() -> None:
    streams = [driver.stream_create() for _ in range(4)]
    recording = Recording()

    def work(number: int) -> None:
        for step in range(100):
            driver.check(lib.orActivitySetCorrelation(1000 * number + step))
            driver.sleep(0, streams[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = recording.stop()
    for number, stream in enumerate(streams):
        expected = [1000 * number + step for step in range(100)]
        assert [one.correlation for one in seen if one.stream == stream] == expected
    assert len(seen) == 400


def test_stopping_waits_and_then_nothing_comes() -> None:
    recording = Recording()
    for device in (0, driver.device_count() - 1):
        driver.set_device(device)
        driver.sleep(0.05, driver.stream_create())
    assert len(recording.stop()) == 2
    driver.sleep(0)
    driver.synchronize()
    assert len(recording.seen) == 2
    assert len(Recording().stop()) == 0


def test_work_that_was_queued_before_is_not_reported() -> None:
    driver.sleep(0.02)
    recording = Recording()
    driver.sleep(0)
    assert len(recording.stop()) == 1


def test_failed_kernels_are_reported_and_dropped_work_is_not() -> None:
    recording = Recording()
    driver.check(lib.orInjectFault(Fault.KERNEL, 0, 1))
    driver.sleep(0)
    driver.sleep(0)
    assert [one.name for one in recording.stop()] == [b"sleep"]


def test_the_callback_must_not_call_the_driver() -> None:
    answers: list[Error] = []
    callback = driver.ON_ACTIVITY(lambda activity, user: answers.append(lib.orDeviceSynchronize()))
    driver.check(lib.orActivityStart(callback, None))
    driver.sleep(0)
    driver.check(lib.orActivityStop())
    assert answers == [Error.NOT_SUPPORTED]


def test_starting_twice_and_stopping_twice() -> None:
    recording = Recording()
    assert lib.orActivityStart(recording.callback, None) == Error.INVALID_VALUE
    assert driver.detail() == "orActivityStart: it is being recorded already; call orActivityStop first"
    recording.stop()
    assert lib.orActivityStop() == Error.INVALID_VALUE
    assert driver.detail() == "orActivityStop: nothing is being recorded; call orActivityStart first"
