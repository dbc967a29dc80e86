"""Pinned host memory."""

from __future__ import annotations

import ctypes

import pytest

from tests.driver import openreg as driver
from tests.driver.openreg import DriverError, Error, Kind, MemoryType, lib


def test_host_code_may_touch_it() -> None:
    pointer = driver.malloc_host(100)
    ctypes.memset(pointer, 7, 100)
    assert ctypes.string_at(pointer, 100) == b"\7" * 100
    driver.free_host(pointer)


def test_zero_bytes_are_null_and_null_can_be_freed() -> None:
    assert driver.malloc_host(0) == 0
    driver.free_host(0)


def test_attributes() -> None:
    pointer = driver.malloc_host(1000)
    for inside in (pointer, pointer + 999):
        found = driver.attributes(inside)
        assert (found.type, found.device, found.base, found.size) == (MemoryType.HOST, -1, pointer, 1000)
    assert driver.attributes(pointer + 1000).type == MemoryType.UNREGISTERED
    driver.free_host(pointer)
    assert driver.attributes(pointer).type == MemoryType.UNREGISTERED


def test_more_than_the_host_has() -> None:
    with pytest.raises(DriverError) as caught:
        driver.malloc_host(1 << 60)
    assert caught.value.error == Error.MEMORY_ALLOCATION
    assert caught.value.detail == (
        "orMallocHost: the host has no room for 1152921504606846976 bytes of pinned memory (Cannot allocate memory)"
    )


def test_bad_pointers() -> None:
    pointer = driver.malloc_host(4096)
    assert lib.orFreeHost(pointer + 16) == Error.MISALIGNED_POINTER
    assert driver.detail() == (
        f"orFreeHost: {pointer + 16:#x} lies 16 bytes inside the pinned memory of 4096 bytes at {pointer:#x}; "
        "pass its start"
    )
    driver.free_host(pointer)
    assert lib.orFreeHost(pointer) == Error.INVALID_POINTER
    assert driver.detail() == f"orFreeHost: {pointer:#x} is not from orMallocHost, or was freed before"
    assert lib.orFreeHost(driver.malloc(8)) == Error.INVALID_POINTER
    assert driver.detail().endswith("is device memory; free it with orFree")


def test_bytes_past_the_end() -> None:
    pinned, device = driver.malloc_host(100), driver.malloc(1000)
    assert lib.orMemcpy(device, pinned + 50, 51, Kind.DEFAULT) == Error.OUT_OF_RANGE
    assert driver.detail() == (
        f"orMemcpy: 51 bytes at {pinned + 50:#x} run past the end of the pinned memory of 100 bytes at {pinned:#x}; "
        "50 bytes are left there"
    )
    driver.free_host(pinned)


@pytest.mark.needs("two devices")
def test_freeing_waits_for_all_devices_and_does_not_mind_a_failed_one() -> None:
    pinned = driver.malloc_host(100)
    driver.set_device(1)
    stream = driver.stream_create()
    driver.sleep(0.02, stream)
    driver.check(lib.orInjectFault(driver.Fault.DEVICE_LOST, 0, 1))
    driver.free_host(pinned)
    driver.check(lib.orStreamQuery(stream))
