"""Streams: order, independence, waiting, the ring buffer."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import pytest

from tests.driver import openreg as driver
from tests.driver.openreg import Error, Kind, lib


def number(function: Callable[..., Error], *arguments: object) -> int:
    out = ctypes.c_int()
    driver.check(function(*arguments, ctypes.byref(out)))
    return out.value


@pytest.mark.needs("two devices")
def test_a_stream_belongs_to_the_device_that_was_current() -> None:
    driver.set_device(1)
    stream = driver.stream_create()
    driver.set_device(0)
    assert number(lib.orStreamGetDevice, stream) == 1
    assert number(lib.orStreamGetDevice, None) == 0


def test_every_device_has_a_default_stream() -> None:
    streams, count = [], driver.device_count()
    for device in range(count):
        stream = ctypes.c_void_p()
        driver.check(lib.orDeviceGetDefaultStream(ctypes.byref(stream), device))
        assert number(lib.orStreamGetDevice, stream) == device
        streams.append(stream.value)
    assert len(set(streams)) == count


def test_priorities_are_brought_into_the_range() -> None:
    lowest, highest = ctypes.c_int(), ctypes.c_int()
    driver.check(lib.orDeviceGetStreamPriorityRange(ctypes.byref(lowest), ctypes.byref(highest)))
    assert (lowest.value, highest.value) == (0, -1)
    for given, kept in ((0, 0), (-1, -1), (7, 0), (-7, -1)):
        assert number(lib.orStreamGetPriority, driver.stream_create(given)) == kept
    plain = ctypes.c_void_p()
    driver.check(lib.orStreamCreate(ctypes.byref(plain)))
    assert number(lib.orStreamGetPriority, plain) == 0


def test_query_and_synchronize() -> None:
    stream = driver.stream_create()
    driver.check(lib.orStreamQuery(stream))
    driver.sleep(0.3, stream)
    assert lib.orStreamQuery(stream) == Error.NOT_READY
    driver.synchronize(stream)
    driver.check(lib.orStreamQuery(stream))


def test_work_of_one_stream_runs_in_order() -> None:
    stream, pointer, copies = driver.stream_create(), driver.malloc(64), driver.malloc(64 * 64)
    driver.sleep(0.01, stream)
    for step in range(64):
        driver.check(lib.orMemsetAsync(pointer, step, 64, stream))
        driver.check(lib.orMemcpyAsync(copies + 64 * step, pointer, 64, Kind.DEVICE_TO_DEVICE, stream))
    driver.synchronize(stream)
    assert driver.read(copies, 64 * 64) == b"".join(bytes([step]) * 64 for step in range(64))


def test_streams_do_not_wait_for_each_other() -> None:
    slow, fast = driver.stream_create(), driver.stream_create()
    driver.sleep(30, slow)
    driver.sleep(0.001, fast)
    driver.synchronize(fast)
    assert lib.orStreamQuery(slow) == Error.NOT_READY


@pytest.mark.needs("two devices")
def test_device_synchronize_waits_for_all_streams_of_the_device_only() -> None:
    streams = [driver.stream_create() for _ in range(3)]
    for stream in streams:
        driver.sleep(0.02, stream)
    driver.set_device(1)
    other = driver.stream_create()
    driver.sleep(30, other)
    driver.set_device(0)
    driver.synchronize()
    for stream in streams:
        driver.check(lib.orStreamQuery(stream))
    assert lib.orStreamQuery(other) == Error.NOT_READY


def test_destroying_waits_for_the_work() -> None:
    stream, pointer = driver.stream_create(), driver.malloc(64)
    driver.sleep(0.02, stream)
    driver.check(lib.orMemsetAsync(pointer, 9, 64, stream))
    driver.check(lib.orStreamDestroy(stream))
    assert driver.read(pointer, 64) == b"\11" * 64
    for function in (lib.orStreamDestroy, lib.orStreamQuery, lib.orStreamSynchronize):
        assert function(stream) == Error.INVALID_HANDLE
    assert lib.orMemsetAsync(pointer, 9, 64, stream) == Error.INVALID_HANDLE
    assert driver.detail() == f"orMemsetAsync: {stream:#x} is not a stream, or no longer"


def test_the_default_stream_cannot_be_destroyed() -> None:
    last = driver.device_count() - 1
    driver.set_device(last)
    assert lib.orStreamDestroy(None) == Error.INVALID_VALUE
    assert (
        driver.detail() == f"orStreamDestroy: this is the default stream of openreg:{last}, which cannot be destroyed"
    )


def test_a_full_ring_makes_the_producer_wait() -> None:
    stream, pointer = driver.stream_create(), driver.malloc(3000)
    driver.sleep(0.05, stream)
    for step in range(3000):  # nearly three rings
        driver.check(lib.orMemsetAsync(pointer + step, step % 251, 1, stream))
    driver.synchronize(stream)
    assert driver.read(pointer, 3000) == bytes(step % 251 for step in range(3000))


def test_a_race_between_streams_shows_and_an_event_cures_it() -> None:
    producer, consumer = driver.stream_create(), driver.stream_create()
    source, target = driver.malloc(64), driver.malloc(64)
    event = driver.event_create()
    for wait, expected in ((False, b"\0" * 64), (True, b"\1" * 64)):
        driver.check(lib.orMemset(source, 0, 64))
        driver.sleep(0.3, producer)
        driver.check(lib.orMemsetAsync(source, 1, 64, producer))
        driver.check(lib.orEventRecord(event, producer))
        if wait:
            driver.check(lib.orStreamWaitEvent(consumer, event))
        driver.check(lib.orMemcpyAsync(target, source, 64, Kind.DEVICE_TO_DEVICE, consumer))
        driver.synchronize(consumer)
        assert driver.read(target, 64) == expected
        driver.synchronize()


@pytest.mark.parametrize("stop", ["synchronize", "destroy"])
def test_many_threads_on_one_stream(stop: str) -> None:
    stream, pointer = driver.stream_create(), driver.malloc(8 * 200)
    driver.sleep(0.01, stream)

    def work(thread: int) -> None:
        for step in range(200):
            driver.check(lib.orMemsetAsync(pointer + 200 * thread + step, thread + 1, 1, stream))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if stop == "synchronize":
        driver.synchronize(stream)
    else:
        driver.check(lib.orStreamDestroy(stream))
    assert driver.read(pointer, 1600) == b"".join(bytes([index + 1]) * 200 for index in range(8))
