"""openreg_extended.h: fills, 2-D copies, registered memory, stream-ordered memory, host functions, peer access."""

from __future__ import annotations

import ctypes
import mmap
import threading

import pytest

from tests.driver import openreg as driver
from tests.driver.conftest import RunDriver
from tests.driver.openreg import DriverError, Error, Fault, Kind, MemoryType, lib


def refused(error: Error, text: str, code: Error) -> None:
    """Checks that the function returned this error and left exactly this detail."""
    assert (code, driver.detail()) == (error, text)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("count", [1, 3, 100_000])
def test_fills_repeat_the_pattern(size: int, count: int) -> None:
    pattern = bytes(range(1, size + 1))
    pointer = driver.malloc(size * (count + 2))
    driver.check(lib.orMemset(pointer, 0, size * (count + 2)))
    driver.check(lib.orFillAsync(pointer + size, pattern, size, count, None))
    assert driver.read(pointer, size * (count + 2)) == bytes(size) + pattern * count + bytes(size)


def test_fills_are_checked() -> None:
    pointer = driver.malloc(64)
    host = ctypes.create_string_buffer(8)
    fill = lib.orFillAsync
    driver.check(fill(None, b"1234", 4, 0, None))
    for size in (0, 3, 32):
        text = f"orFillAsync: a pattern of {size} bytes is not one; valid are 1, 2, 4, 8 and 16"
        refused(Error.INVALID_VALUE, text, fill(pointer, bytes(32), size, 1, None))
    refused(
        Error.MISALIGNED_POINTER,
        f"orFillAsync: {pointer + 2:#x} is no multiple of the pattern's 4 bytes",
        fill(pointer + 2, b"1234", 4, 1, None),
    )
    text = "run past the end of the allocation of 64 bytes at openreg:0 + 0x0; 64 bytes are left there"
    refused(Error.OUT_OF_RANGE, f"orFillAsync: 68 bytes at openreg:0 + 0x0 {text}", fill(pointer, b"1234", 4, 17, None))
    huge = f"orFillAsync: {2**64 - 1} bytes at openreg:0 + 0x0 {text}"
    refused(Error.OUT_OF_RANGE, huge, fill(pointer, b"1234", 4, 2**62, None))
    address = ctypes.addressof(host)
    refused(
        Error.INVALID_POINTER, f"orFillAsync: {address:#x} is not device memory", fill(address, b"1234", 4, 1, None)
    )
    refused(Error.INVALID_HANDLE, "orFillAsync: 0x7 is not a stream, or no longer", fill(pointer, b"1234", 4, 1, 7))
    driver.free(pointer)
    refused(
        Error.FREED_POINTER,
        "orFillAsync: openreg:0 + 0x0 is not allocated, or no longer",
        fill(pointer, b"1234", 4, 1, None),
    )


def test_rows_are_copied_in_every_direction() -> None:
    host = bytes(range(60))
    device, other = driver.malloc(60), driver.malloc(60)
    back = ctypes.create_string_buffer(20)
    driver.check(lib.orMemset(device, 0, 60))
    copy = lib.orMemcpy2DAsync
    driver.check(copy(device + 3, 7, host, 12, 5, 4, Kind.HOST_TO_DEVICE, None))
    rows = [host[12 * row : 12 * row + 5] for row in range(4)]
    assert driver.read(device, 29) == bytes(3) + b"\0\0".join(rows)
    driver.check(copy(other, 5, device + 3, 7, 5, 4, Kind.DEVICE_TO_DEVICE, None))
    driver.check(copy(back, 5, other, 5, 5, 4, Kind.DEFAULT, None))
    assert back.raw == b"".join(rows)
    driver.check(copy(None, 0, None, 0, 0, 4, Kind.DEFAULT, None))
    driver.check(copy(None, 0, None, 0, 4, 0, Kind.DEFAULT, None))


def test_rows_follow_the_stream() -> None:
    pinned = driver.malloc_host(8)
    device, stream = driver.malloc(8), driver.stream_create()
    driver.write(device, bytes(8))
    ctypes.memmove(pinned, b"abcdefgh", 8)
    driver.sleep(0.1, stream)
    driver.check(lib.orMemcpy2DAsync(device, 4, pinned, 4, 2, 2, Kind.HOST_TO_DEVICE, stream))
    assert lib.orStreamQuery(stream) == Error.NOT_READY  # from pinned memory it is queued
    driver.synchronize(stream)
    assert driver.read(device, 8) == b"ab\0\0ef\0\0"
    pageable = ctypes.create_string_buffer(b"ijkl", 4)
    driver.sleep(0.05, stream)
    driver.check(lib.orMemcpy2DAsync(device, 4, pageable, 2, 2, 2, Kind.HOST_TO_DEVICE, stream))
    pageable.raw = b"xxxx"  # it was read
    assert driver.read(device, 8) == b"ij\0\0kl\0\0"


def test_rows_are_checked() -> None:
    device, host = driver.malloc(60), ctypes.create_string_buffer(60)
    copy = lib.orMemcpy2DAsync
    name = "orMemcpy2DAsync"
    for pitches, text in (((4, 5), "dst_pitch is 4"), ((5, 4), "src_pitch is 4")):
        refused(
            Error.INVALID_VALUE,
            f"{name}: {text}, less than the width of 5 bytes",
            copy(device, pitches[0], host, pitches[1], 5, 2, Kind.DEFAULT, None),
        )
    refused(
        Error.OUT_OF_RANGE,
        f"{name}: 61 bytes at openreg:0 + 0x0 run past the end of the allocation of 60 bytes at openreg:0 + 0x0; 60 "
        "bytes are left there",
        copy(device, 8, host, 8, 5, 8, Kind.DEFAULT, None),
    )
    refused(
        Error.OUT_OF_RANGE,
        f"{name}: {2**40} rows of dst, {2**40} bytes apart, are more than there are addresses",
        copy(device, 2**40, host, 8, 5, 2**40, Kind.DEFAULT, None),
    )
    refused(
        Error.INVALID_MEMCPY_KIND,
        f"{name}: kind is orMemcpyDeviceToHost, but src is host memory and dst is device memory; pass "
        "orMemcpyHostToDevice",
        copy(device, 8, host, 8, 5, 2, Kind.DEVICE_TO_HOST, None),
    )
    refused(Error.INVALID_VALUE, f"{name}: src is null", copy(device, 8, None, 8, 5, 2, Kind.DEFAULT, None))


def test_registered_memory_is_pinned() -> None:
    memory = mmap.mmap(-1, 8192)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    driver.check(lib.orHostRegister(address + 100, 5000))
    found = driver.attributes(address + 200)
    assert (found.type, found.device, found.base, found.size) == (MemoryType.HOST, -1, address + 100, 5000)
    assert driver.attributes(address).type == driver.attributes(address + 5100).type == MemoryType.UNREGISTERED
    device, stream = driver.malloc(4), driver.stream_create()
    driver.sleep(0.1, stream)
    driver.check(lib.orMemcpyAsync(device, address + 100, 4, Kind.HOST_TO_DEVICE, stream))
    assert lib.orStreamQuery(stream) == Error.NOT_READY
    driver.check(lib.orHostUnregister(address + 100))  # waits, as orFreeHost does
    driver.check(lib.orStreamQuery(stream))
    assert driver.attributes(address + 200).type == MemoryType.UNREGISTERED
    assert memory[:4] == bytes(4)  # it is still there


def test_registering_is_checked() -> None:
    memory = mmap.mmap(-1, 8192)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    driver.check(lib.orHostRegister(address + 100, 1000))
    for start, size in ((address, 101), (address, 8192), (address + 100, 1), (address + 1099, 10), (address + 500, 3)):
        refused(
            Error.INVALID_VALUE,
            f"orHostRegister: of {size} bytes at {start:#x} some are pinned already: 1000 bytes at {address + 100:#x}",
            lib.orHostRegister(start, size),
        )
    driver.check(lib.orHostRegister(address, 100))  # adjacent to it
    for start, size in ((8, 4), (address, 2**62), (2**64 - 8, 16)):
        refused(
            Error.INVALID_VALUE,
            f"orHostRegister: of {size} bytes at {start:#x} not all are memory of this process",
            lib.orHostRegister(start, size),
        )
    device, pinned = driver.malloc(8), driver.malloc_host(8)
    refused(Error.INVALID_POINTER, "orHostRegister: openreg:0 + 0x0 is device memory", lib.orHostRegister(device, 8))
    refused(Error.INVALID_VALUE, "orHostRegister: pointer is null, or bytes is 0", lib.orHostRegister(address, 0))
    refused(
        Error.INVALID_POINTER,
        f"orFreeHost: {address + 100:#x} is not from orMallocHost; pass it to orHostUnregister",
        lib.orFreeHost(address + 100),
    )
    refused(
        Error.INVALID_POINTER,
        f"orHostUnregister: {pinned:#x} is not from orHostRegister; pass it to orFreeHost",
        lib.orHostUnregister(pinned),
    )
    refused(
        Error.MISALIGNED_POINTER,
        f"orHostUnregister: {address + 108:#x} lies 8 bytes inside the pinned memory of 1000 bytes at "
        f"{address + 100:#x}; pass its start",
        lib.orHostUnregister(address + 108),
    )
    for start in (address + 100, address):
        driver.check(lib.orHostUnregister(start))
    refused(
        Error.INVALID_POINTER,
        f"orHostUnregister: {address:#x} is not from orHostRegister, or was unregistered before",
        lib.orHostUnregister(address),
    )
    driver.free_host(pinned)


def test_of_threads_that_register_the_same_bytes_one_succeeds() -> None:
    memory = mmap.mmap(-1, 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    threads, rounds = 4, 200
    start, codes = threading.Barrier(threads), [[Error.NOT_READY] * threads for _ in range(rounds)]

    def register(number: int) -> None:
        for of_round in codes:
            start.wait()
            # Their ranges begin at different bytes, and overlap.
            of_round[number] = lib.orHostRegister(address + number, 100)
            start.wait()
            if of_round[number] == Error.SUCCESS:
                driver.check(lib.orHostUnregister(address + number))

    running = [threading.Thread(target=register, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    wanted = [Error.INVALID_VALUE] * (threads - 1) + [Error.SUCCESS]
    assert [sorted(of_round, key=lambda code: code == Error.SUCCESS) for of_round in codes] == [wanted] * rounds


def malloc_async(size: int, stream: int | None) -> int:
    out = ctypes.c_void_p()
    driver.check(lib.orMallocAsync(ctypes.byref(out), size, stream))
    return out.value or 0


def test_memory_in_the_order_of_a_stream() -> None:
    stream = driver.stream_create()
    free, _ = driver.mem_get_info()
    driver.sleep(0.1, stream)
    pointer = malloc_async(1024, stream)
    assert lib.orStreamQuery(stream) == Error.NOT_READY  # it did not wait
    driver.check(lib.orMemsetAsync(pointer, 7, 1024, stream))
    copied = driver.malloc(1024)
    driver.check(lib.orMemcpyAsync(copied, pointer, 1024, Kind.DEVICE_TO_DEVICE, stream))
    driver.check(lib.orFreeAsync(pointer, stream))
    assert lib.orStreamQuery(stream) == Error.NOT_READY
    assert driver.mem_get_info()[0] == free - 2048  # still in use
    text = "openreg:0 + 0x0 is not allocated, or no longer"
    refused(Error.FREED_POINTER, f"orFreeAsync: {text}", lib.orFreeAsync(pointer, stream))
    refused(Error.FREED_POINTER, f"orFree: {text}", lib.orFree(pointer))
    refused(Error.FREED_POINTER, f"orMemset: {text}", lib.orMemset(pointer, 0, 1))
    driver.synchronize(stream)
    assert driver.mem_get_info()[0] == free - 1024
    assert driver.read(copied, 1024) == b"\7" * 1024
    assert malloc_async(0, None) == 0
    driver.check(lib.orFreeAsync(None, None))


@pytest.mark.needs("two devices")
def test_memory_of_a_stream_is_on_its_device() -> None:
    driver.set_device(1)
    stream = driver.stream_create()
    driver.set_device(0)
    there, here = malloc_async(8, stream), malloc_async(8, None)
    assert (driver.attributes(there).device, driver.attributes(here).device) == (1, 0)
    refused(
        Error.INVALID_VALUE,
        "orFreeAsync: the memory lies on openreg:0 and the stream belongs to openreg:1",
        lib.orFreeAsync(here, stream),
    )
    driver.check(lib.orFreeAsync(there, stream))
    with pytest.raises(DriverError, match=r"orMallocAsync: openreg:0 has no room for 10133099161583616 bytes"):
        malloc_async(9 << 50, None)
    driver.check(lib.orInjectFault(Fault.ALLOCATION, 0, 1))
    with pytest.raises(DriverError, match=r"orMallocAsync: openreg:0 has no room for 8 bytes \(injected fault\)"):
        malloc_async(8, None)
    address = ctypes.addressof(ctypes.create_string_buffer(8))
    refused(Error.INVALID_POINTER, f"orFreeAsync: {address:#x} is not device memory", lib.orFreeAsync(address, None))
    refused(
        Error.MISALIGNED_POINTER,
        "orFreeAsync: openreg:0 + 0x2 lies 2 bytes inside the allocation of 8 bytes at openreg:0 + 0x0; pass its start",
        lib.orFreeAsync(here + 2, None),
    )


def test_a_reset_frees_what_was_still_to_be_freed() -> None:
    stream = driver.stream_create()
    pointer = malloc_async(1024, stream)
    driver.sleep(60, stream)
    driver.check(lib.orFreeAsync(pointer, stream))
    driver.check(lib.orDeviceReset())
    free, total = driver.mem_get_info()
    assert free == total
    assert driver.malloc(1024) == pointer


def test_host_functions_run_in_order_on_another_thread() -> None:
    stream, device = driver.stream_create(), driver.malloc(4)
    seen: list[object] = []

    def look(user: int | None) -> None:
        seen.append((user, threading.get_ident() != main, lib.orDeviceSynchronize(), driver.detail()))

    main, callback = threading.get_ident(), driver.HOST_FUNCTION(look)
    driver.sleep(0.05, stream)
    driver.check(lib.orLaunchHostFunction(stream, callback, 77))
    assert not seen
    driver.check(lib.orMemsetAsync(device, 1, 4, stream))
    driver.synchronize(stream)
    text = (
        "orDeviceSynchronize: called by a kernel, which could wait for itself; a kernel may call orGetHostAlias, "
        "orPointerGetAttributes and the functions that describe devices and streams"
    )
    assert seen == [(77, True, Error.NOT_SUPPORTED, text)]


def test_host_functions_are_not_called_after_a_failure() -> None:
    seen: list[int | None] = []
    note = driver.HOST_FUNCTION(seen.append)
    driver.check(lib.orInjectFault(Fault.KERNEL, 0, 1))
    driver.check(lib.orLaunchHostFunction(None, note, 1))  # not a kernel
    driver.sleep(0)
    driver.check(lib.orLaunchHostFunction(None, note, 2))
    with pytest.raises(DriverError, match="kernel 'sleep' failed"):
        driver.synchronize()
    assert seen == [1]
    assert lib.orLaunchHostFunction(None, note, 3) == Error.LAUNCH_FAILURE


def test_peers() -> None:
    can, count = ctypes.c_int(), driver.device_count()
    for device, peer in ((0, count - 1), (count - 1, 0), (0, 0)):
        driver.check(lib.orDeviceCanAccessPeer(ctypes.byref(can), device, peer))
        assert can.value == 1
    text = f"device {count} does not exist; valid are 0 to {count - 1}"
    for device, peer in ((0, count), (count, 0)):
        refused(
            Error.INVALID_DEVICE,
            f"orDeviceCanAccessPeer: {text}",
            lib.orDeviceCanAccessPeer(ctypes.byref(can), device, peer),
        )
    for name in ("orDeviceEnablePeerAccess", "orDeviceDisablePeerAccess"):
        refused(Error.INVALID_DEVICE, f"{name}: {text}", getattr(lib, name)(count))
        for peer in (count - 1, count - 1, 0):
            driver.check(getattr(lib, name)(peer))


def test_freeing_in_the_order_of_a_stream_while_the_device_is_reset(run_driver: RunDriver) -> None:
    # A block that the reset has freed meanwhile may be part of another one: touching it damages the heap.
    ran = run_driver("""
        from tests.driver.openreg import lib

        def work():
            while not over:
                stream = ctypes.c_void_p()
                if lib.orStreamCreate(ctypes.byref(stream)):
                    continue
                for count in range(200):
                    pointer = ctypes.c_void_p()
                    if lib.orMallocAsync(ctypes.byref(pointer), 4096 * (count % 7 + 1), stream):
                        break
                    if lib.orFreeAsync(pointer, stream):
                        break

        over = False
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 3
        while time.monotonic() < end:
            driver.check(lib.orDeviceReset())
        over = True
        for thread in threads:
            thread.join()
        driver.check(lib.orDeviceReset())
        print(*(number == driver.mem_get_info()[1] for number in driver.mem_get_info()))
    """)
    assert (ran.returncode, ran.stdout) == (0, "True True\n"), ran.stderr
