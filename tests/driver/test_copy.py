"""Copies and fills of every kind."""

from __future__ import annotations

import ctypes
import itertools

import pytest

from tests.driver import openreg as driver
from tests.driver.openreg import Error, Kind, lib

# Below and above the limits for running on the caller and for staging.
SIZES = [1, 1000, (1 << 20) + 1, 5 << 20]


def pattern(size: int) -> bytes:
    return bytes(itertools.islice(itertools.cycle(range(251)), size))


@pytest.mark.parametrize("size", SIZES)
def test_there_and_back(size: int) -> None:
    data, pointer = pattern(size), driver.malloc(size)
    driver.write(pointer, data)
    assert driver.read(pointer, size) == data


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("devices", [(0, 0), pytest.param((0, 1), marks=pytest.mark.needs("two devices"))])
def test_between_allocations_and_devices(size: int, devices: tuple[int, int]) -> None:
    data, pointers = pattern(size), []
    for device in devices:
        driver.set_device(device)
        pointers.append(driver.malloc(size))
    driver.write(pointers[0], data)
    driver.check(lib.orMemcpy(pointers[1], pointers[0], size, Kind.DEVICE_TO_DEVICE))
    assert driver.read(pointers[1], size) == data


def test_overlapping_copy() -> None:
    pointer = driver.malloc(100)
    driver.write(pointer, pattern(100))
    driver.check(lib.orMemcpy(pointer + 10, pointer, 90, Kind.DEVICE_TO_DEVICE))
    assert driver.read(pointer + 10, 90) == pattern(90)


def test_host_to_host() -> None:
    target = ctypes.create_string_buffer(5)
    for kind in (Kind.HOST_TO_HOST, Kind.DEFAULT):
        driver.check(lib.orMemcpy(target, b"hello", 5, kind))
        assert target.raw == b"hello"
    driver.check(lib.orMemcpyAsync(target, b"there", 5, Kind.HOST_TO_HOST, None))
    assert target.raw == b"there"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("busy", [False, True])
def test_a_pageable_source_may_change_when_the_call_returns(size: int, busy: bool) -> None:
    pointer, stream = driver.malloc(size), driver.stream_create()
    source = ctypes.create_string_buffer(pattern(size), size)
    if busy:
        driver.sleep(0.02, stream)
    driver.check(lib.orMemcpyAsync(pointer, source, size, Kind.HOST_TO_DEVICE, stream))
    ctypes.memset(source, 0, size)
    driver.synchronize(stream)
    assert driver.read(pointer, size) == pattern(size)


def test_a_small_pageable_source_does_not_wait() -> None:
    pointer, stream = driver.malloc(100), driver.stream_create()
    driver.sleep(30, stream)
    driver.check(lib.orMemcpyAsync(pointer, pattern(100), 100, Kind.HOST_TO_DEVICE, stream))
    assert lib.orStreamQuery(stream) == Error.NOT_READY


@pytest.mark.parametrize("size", SIZES)
def test_a_pageable_target_is_filled_when_the_call_returns(size: int) -> None:
    pointer, stream = driver.malloc(size), driver.stream_create()
    driver.sleep(0.02, stream)
    driver.check(lib.orMemcpyAsync(pointer, pattern(size), size, Kind.HOST_TO_DEVICE, stream))
    target = ctypes.create_string_buffer(size)
    driver.check(lib.orMemcpyAsync(target, pointer, size, Kind.DEVICE_TO_HOST, stream))
    assert target.raw == pattern(size)


def test_pinned_memory_is_copied_when_the_stream_gets_there() -> None:
    size = 4096
    pointer, stream, pinned = driver.malloc(size), driver.stream_create(), driver.malloc_host(size)
    ctypes.memset(pinned, 1, size)
    driver.sleep(0.3, stream)
    driver.check(lib.orMemcpyAsync(pointer, pinned, size, Kind.HOST_TO_DEVICE, stream))
    ctypes.memset(pinned, 2, size)  # a mistake that the contract forbids: the copy has not happened yet
    driver.synchronize(stream)
    assert driver.read(pointer, size) == b"\2" * size
    driver.sleep(0.3, stream)
    driver.check(lib.orMemcpyAsync(pinned, pointer, size, Kind.DEVICE_TO_HOST, stream))
    ctypes.memset(pinned, 3, size)
    driver.synchronize(stream)
    assert ctypes.string_at(pinned, size) == b"\2" * size
    driver.free_host(pinned)


@pytest.mark.needs("two devices")
def test_a_synchronous_copy_comes_after_the_default_streams_of_both_devices() -> None:
    here = driver.malloc(100)
    driver.set_device(1)
    there = driver.malloc(100)
    driver.write(there, b"\1" * 100)
    driver.sleep(0.02)
    driver.check(lib.orMemsetAsync(there, 5, 100, None))
    driver.check(lib.orMemcpy(here, there, 100, Kind.DEVICE_TO_DEVICE))
    assert driver.read(here, 100) == b"\5" * 100


@pytest.mark.parametrize("size", SIZES)
def test_fill(size: int) -> None:
    pointer, stream = driver.malloc(size), driver.stream_create()
    driver.check(lib.orMemset(pointer, 0x1FF, size))
    assert driver.read(pointer, size) == b"\xff" * size
    driver.check(lib.orMemsetAsync(pointer, 3, size, stream))
    driver.synchronize(stream)
    assert driver.read(pointer, size) == b"\3" * size


def test_zero_bytes_are_allowed_with_any_pointer() -> None:
    driver.check(lib.orMemcpy(None, None, 0, Kind.DEFAULT))
    driver.check(lib.orMemcpyAsync(None, None, 0, Kind.DEFAULT, None))
    driver.check(lib.orMemset(None, 0, 0))
    driver.check(lib.orMemsetAsync(None, 0, 0, None))


NAMES = ["orMemcpyHostToHost", "orMemcpyHostToDevice", "orMemcpyDeviceToHost", "orMemcpyDeviceToDevice"]


@pytest.mark.parametrize(("given", "actual"), list(itertools.permutations(range(4), 2)))
def test_a_kind_that_contradicts_the_pointers(given: int, actual: int) -> None:
    buffer, device = ctypes.create_string_buffer(8), driver.malloc(8)
    host = ctypes.addressof(buffer)
    source, target = (device if actual & 2 else host), (device if actual & 1 else host)
    for error in (
        lib.orMemcpy(target, source, 8, given),
        lib.orMemcpyAsync(target, source, 8, given, None),
    ):
        assert error == Error.INVALID_MEMCPY_KIND
        assert driver.detail().split(": ", 1)[1] == (
            f"kind is {NAMES[given]}, but src is {'device' if actual & 2 else 'host'} memory and dst is "
            f"{'device' if actual & 1 else 'host'} memory; pass {NAMES[actual]}"
        )


def test_a_kind_that_does_not_exist() -> None:
    assert lib.orMemcpy(driver.malloc(8), b"12345678", 8, 5) == Error.INVALID_MEMCPY_KIND
    assert driver.detail() == "orMemcpy: kind 5 does not exist; valid are 0 to 4"


def test_bad_device_pointers() -> None:
    pointer = driver.malloc(512)
    driver.free(pointer)
    buffer = ctypes.create_string_buffer(8)
    assert lib.orMemcpy(buffer, pointer, 8, Kind.DEFAULT) == Error.FREED_POINTER
    assert lib.orMemset(ctypes.addressof(buffer), 0, 8) == Error.INVALID_POINTER
    assert driver.detail() == f"orMemset: {ctypes.addressof(buffer):#x} is not device memory"
    assert lib.orMemcpy(driver.malloc(8), None, 8, Kind.DEFAULT) == Error.INVALID_VALUE
    assert driver.detail() == "orMemcpy: src is null"
