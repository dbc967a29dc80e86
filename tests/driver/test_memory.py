"""Device memory: free space, errors for every kind of bad pointer, attributes."""

from __future__ import annotations

import ctypes
import re

import pytest

from tests.driver import openreg as driver
from tests.driver.openreg import DriverError, Error, MemoryType, lib


def offset_of(pointer: int) -> int:
    """The offset in the device's memory, as the driver's messages state it."""
    lib.orMemset(pointer, 0, 2**40)
    match = re.search(r"at openreg:\d \+ 0x([0-9a-f]+) run past", driver.detail())
    assert match is not None
    return int(match[1], 16)


def test_pointers_are_aligned_and_apart() -> None:
    pointers = sorted(driver.malloc(size) for size in (1, 511, 512, 513, 100_000))
    assert all(pointer % 512 == 0 for pointer in pointers)
    assert len(set(pointers)) == len(pointers)


def test_zero_bytes_are_null_and_null_can_be_freed() -> None:
    assert driver.malloc(0) == 0
    driver.free(0)


def test_free_bytes_follow_the_allocations() -> None:
    free, total = driver.mem_get_info()
    assert free == total == 4 << 30
    pointer = driver.malloc(1000)
    assert driver.mem_get_info() == (free - 1024, total)
    driver.free(pointer)
    assert driver.mem_get_info() == (free, total)


def test_freed_room_is_joined_and_used_again() -> None:
    _, total = driver.mem_get_info()
    pointers = [driver.malloc(total // 4) for _ in range(4)]
    for index in (1, 3, 0, 2):
        driver.free(pointers[index])
    driver.free(driver.malloc(total))


def test_the_best_fitting_room_is_taken() -> None:
    small_gap, _, large_gap, _ = (driver.malloc(size) for size in (1024, 512, 8192, 512))
    driver.free(small_gap)
    driver.free(large_gap)
    assert driver.malloc(700) == small_gap
    assert driver.malloc(5000) == large_gap


def test_no_room_names_what_was_asked_and_what_is_left() -> None:
    _, total = driver.mem_get_info()
    driver.malloc(total // 2)
    with pytest.raises(DriverError) as caught:
        driver.malloc(total)
    assert caught.value.error == Error.MEMORY_ALLOCATION
    assert caught.value.detail == (
        "orMalloc: openreg:0 has no room for 4294967296 bytes; of its 4294967296 bytes 2147483648 are free, "
        "the largest piece has 2147483648"
    )
    for size in (total + 1, 2**64 - 1):
        assert lib.orMalloc(ctypes.byref(ctypes.c_void_p()), size) == Error.MEMORY_ALLOCATION
    assert lib.orGetLastError() == Error.MEMORY_ALLOCATION
    driver.malloc(100)  # the error is not sticky


def test_freeing_twice() -> None:
    pointer = driver.malloc(512)
    offset = offset_of(pointer)
    driver.free(pointer)
    assert lib.orFree(pointer) == Error.FREED_POINTER
    assert driver.detail() == f"orFree: openreg:0 + {offset:#x} is not allocated, or no longer"


def test_freeing_the_inside_of_an_allocation() -> None:
    pointer = driver.malloc(4096)
    offset = offset_of(pointer)
    assert lib.orFree(pointer + 512) == Error.MISALIGNED_POINTER
    assert driver.detail() == (
        f"orFree: openreg:0 + {offset + 512:#x} lies 512 bytes inside the allocation of 4096 bytes at "
        f"openreg:0 + {offset:#x}; pass its start"
    )
    driver.free(pointer)


def test_freeing_host_memory() -> None:
    buffer = ctypes.create_string_buffer(8)
    assert lib.orFree(ctypes.addressof(buffer)) == Error.INVALID_POINTER
    assert driver.detail() == f"orFree: {ctypes.addressof(buffer):#x} is not device memory"
    pinned = driver.malloc_host(8)
    assert lib.orFree(pinned) == Error.INVALID_POINTER
    assert driver.detail() == f"orFree: {pinned:#x} is pinned memory; free it with orFreeHost"
    driver.free_host(pinned)


def test_freeing_waits_for_the_device() -> None:
    pointer, stream = driver.malloc(512), driver.stream_create()
    driver.sleep(0.02, stream)
    driver.free(pointer)
    driver.check(lib.orStreamQuery(stream))


@pytest.mark.needs("two devices")
def test_memory_of_another_device_can_be_freed() -> None:
    pointer = driver.malloc(512)
    driver.set_device(1)
    driver.free(pointer)


def test_bytes_past_the_end() -> None:
    pointer = driver.malloc(1000)
    offset = offset_of(pointer)
    assert lib.orMemset(pointer + 600, 0, 401) == Error.OUT_OF_RANGE
    assert driver.detail() == (
        f"orMemset: 401 bytes at openreg:0 + {offset + 600:#x} run past the end of the allocation of 1000 bytes at "
        f"openreg:0 + {offset:#x}; 400 bytes are left there"
    )
    # The allocation takes 1024 bytes, but 1000 were requested.
    assert lib.orMemset(pointer + 1010, 0, 1) == Error.OUT_OF_RANGE
    assert driver.detail().endswith("0 bytes are left there")
    driver.check(lib.orMemset(pointer + 600, 0, 400))


def test_attributes_of_device_memory() -> None:
    last = driver.device_count() - 1
    driver.set_device(last)
    pointer = driver.malloc(1000)
    driver.set_device(0)
    for inside in (pointer, pointer + 999):
        found = driver.attributes(inside)
        assert (found.type, found.device, found.base, found.size) == (MemoryType.DEVICE, last, pointer, 1000)
    driver.free(pointer)
    with pytest.raises(DriverError, match=rf"openreg:{last} \+ 0x[0-9a-f]+ is not allocated, or no longer") as caught:
        driver.attributes(pointer)
    assert caught.value.error == Error.FREED_POINTER


def test_attributes_of_host_memory() -> None:
    buffer = ctypes.create_string_buffer(8)
    for pointer in (0, ctypes.addressof(buffer), 2**64 - 1):
        found = driver.attributes(pointer)
        assert (found.type, found.device, found.base, found.size) == (MemoryType.UNREGISTERED, -1, None, 0)


def test_freed_pages_go_back_to_the_host() -> None:
    size = 256 << 20

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    pointer = driver.malloc(size)
    driver.check(lib.orMemset(pointer, 1, size))
    full = resident()
    driver.free(pointer)
    assert full - resident() > size // 2


@pytest.mark.parametrize("bytes_", [2**64 - 1, 2**64 - 600, 2**64 - 60_000, 2**63])
@pytest.mark.parametrize("function", ["orMalloc", "orMallocShareable"])
def test_sizes_close_to_the_largest_number_change_nothing(function: str, bytes_: int) -> None:
    if not hasattr(lib, function):
        pytest.skip(f"the driver has no {function}")
    block = driver.malloc(4096)
    rest = driver.malloc(65536 - 4096)
    free = driver.mem_get_info()
    pointer = ctypes.c_void_p()
    assert getattr(lib, function)(ctypes.byref(pointer), bytes_) == Error.MEMORY_ALLOCATION
    assert driver.mem_get_info() == free
    other = driver.malloc(2048)
    for own, size in ((block, 4096), (rest, 65536 - 4096)):
        assert other >= own + size or other + 2048 <= own
        driver.free(own)
    driver.free(other)
