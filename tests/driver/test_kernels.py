"""Built-in kernels and host kernels, and the effects of their failures."""

from __future__ import annotations

import ctypes
import threading

import pytest

from tests.driver import openreg as driver
from tests.driver.openreg import DriverError, Error, Kind, lib

needs_host_kernels = pytest.mark.skipif(not driver.has_host_kernels, reason="built with HOST_KERNELS=OFF")


def test_an_unknown_kernel() -> None:
    kernel = ctypes.c_void_p()
    assert lib.orGetKernel(ctypes.byref(kernel), b"dance") == Error.INVALID_VALUE
    assert driver.detail() == "orGetKernel: the device has no kernel 'dance'; valid is 'sleep'"
    for handle in (None, 0x1234, driver.stream_create()):
        assert lib.orLaunchKernel(handle, b"12345678", 8, None) == Error.INVALID_HANDLE
        assert driver.detail().endswith("is not a kernel")


def test_wrong_arguments_of_a_kernel() -> None:
    kernel = ctypes.c_void_p()
    driver.check(lib.orGetKernel(ctypes.byref(kernel), b"sleep"))
    assert lib.orLaunchKernel(kernel, b"1234", 4, None) == Error.INVALID_VALUE
    assert driver.detail().startswith(
        "orLaunchKernel: kernel 'sleep' takes 8 bytes of arguments (nanoseconds), given 4 at 0x"
    )
    assert lib.orLaunchKernel(kernel, None, 8, None) == Error.INVALID_VALUE


def test_a_very_long_sleep_can_be_reset() -> None:
    driver.sleep(2**64 / 1e9 - 1e6)
    driver.check(lib.orDeviceReset())


@needs_host_kernels
def test_a_host_kernel_works_on_device_memory() -> None:
    pointer = driver.malloc(16)
    driver.write(pointer, bytes(range(16)))

    def double() -> None:
        alias = driver.host_alias(pointer, 16)
        ctypes.memmove(alias, bytes(2 * byte for byte in ctypes.string_at(alias, 16)), 16)

    destroyed = driver.launch(b"double", double)
    driver.synchronize()
    assert destroyed()
    assert driver.read(pointer, 16) == bytes(2 * byte for byte in range(16))


@needs_host_kernels
def test_bad_host_kernels_are_refused_and_destroyed() -> None:
    assert lib.orLaunchHostKernel(None, None) == Error.INVALID_VALUE
    assert driver.detail() == "orLaunchHostKernel: kernel is null"
    calls: list[int] = []
    destroy = driver.DESTROY(lambda closure: calls.append(closure))
    kernel = driver.HostKernel(b"no function", driver.RUN(), destroy, 7, 0)
    assert lib.orLaunchHostKernel(ctypes.byref(kernel), None) == Error.INVALID_VALUE
    assert driver.detail() == "orLaunchHostKernel: name or run is null"
    assert calls == [7]
    with pytest.raises(DriverError, match="0x1234 is not a stream, or no longer"):
        driver.launch(b"nowhere", lambda: None, 0x1234)


@needs_host_kernels
def test_host_aliases() -> None:
    pointer = driver.malloc(100)
    assert driver.host_alias(pointer + 10, 90) == driver.host_alias(pointer, 100) + 10
    driver.set_device(driver.device_count() - 1)
    other = driver.malloc(100)
    assert driver.host_alias(other, 1) - other == driver.host_alias(pointer, 1) - pointer
    out = ctypes.c_void_p()
    assert lib.orGetHostAlias(None, pointer, 1) == Error.INVALID_VALUE
    assert driver.detail() == "orGetHostAlias: alias is null"
    assert lib.orGetHostAlias(ctypes.byref(out), 0x1234, 1) == Error.INVALID_POINTER
    assert driver.detail() == "orGetHostAlias: 0x1234 is not device memory"
    assert lib.orGetHostAlias(ctypes.byref(out), other, 2**40) == Error.OUT_OF_RANGE
    assert driver.detail().endswith("run past the device's memory of 4294967296 bytes")


@needs_host_kernels
def test_a_kernel_may_not_call_what_could_wait_for_it() -> None:
    pointer, stream = driver.malloc(8), driver.stream_create()
    seen: list[object] = []

    def calls() -> None:
        seen.extend([lib.orDeviceSynchronize(), driver.detail(), lib.orFree(pointer)])
        seen.append(driver.attributes(pointer).size)
        seen.append(driver.device_count())

    driver.launch(b"calls", calls, stream)
    driver.synchronize()
    assert seen == [
        Error.NOT_SUPPORTED,
        "orDeviceSynchronize: called by a kernel, which could wait for itself; a kernel may call orGetHostAlias, "
        "orPointerGetAttributes and the functions that describe devices and streams",
        Error.NOT_SUPPORTED,
        8,
        driver.device_count(),
    ]


FAILURE = "kernel 'breaks' failed on openreg:0: index 9 is too large; the device runs nothing more until orDeviceReset"


def fail_a_kernel(stream: int | None = None) -> None:
    driver.launch(b"breaks", lambda: "index 9 is too large", stream)


@needs_host_kernels
@pytest.mark.parametrize("work_bytes", [0, 1 << 30])
def test_a_failure_is_reported_by_the_next_synchronisation_and_stays(work_bytes: int) -> None:
    pointer, event, ran = driver.malloc(64), driver.event_create(), []
    driver.launch(b"breaks", lambda: "index 9 is too large", work_bytes=work_bytes)
    # Until it is reported, launches succeed and do nothing.
    destroyed = driver.launch(b"dropped", lambda: ran.append(1))
    driver.check(lib.orMemsetAsync(pointer, 1, 64, None))
    driver.check(lib.orEventRecord(event, None))
    assert lib.orDeviceSynchronize() == Error.LAUNCH_FAILURE
    assert driver.detail() == f"orDeviceSynchronize: {FAILURE}"
    assert destroyed()
    assert ran == []
    out, size = ctypes.c_void_p(), ctypes.c_size_t()
    attributes = driver.PointerAttributes()
    kernel = ctypes.c_void_p()
    driver.check(lib.orGetKernel(ctypes.byref(kernel), b"sleep"))
    for error in (
        lib.orDeviceSynchronize(),
        lib.orMalloc(ctypes.byref(out), 1),
        lib.orFree(pointer),
        lib.orMemGetInfo(ctypes.byref(size), ctypes.byref(size)),
        lib.orPointerGetAttributes(ctypes.byref(attributes), pointer),
        lib.orMemcpy(pointer, b"1", 1, Kind.DEFAULT),
        lib.orMemcpyAsync(pointer, b"1", 1, Kind.DEFAULT, None),
        lib.orMemset(pointer, 1, 1),
        lib.orMemsetAsync(pointer, 1, 1, None),
        lib.orStreamCreate(ctypes.byref(out)),
        lib.orStreamSynchronize(None),
        lib.orStreamQuery(None),
        lib.orStreamWaitEvent(None, event),
        lib.orEventCreate(ctypes.byref(out)),
        lib.orEventRecord(event, None),
        lib.orEventQuery(event),
        lib.orEventSynchronize(event),
        lib.orEventDestroy(event),
        lib.orLaunchKernel(kernel, b"12345678", 8, None),
        lib.orGetLastError(),
        lib.orPeekLastError(),
    ):
        assert error == Error.LAUNCH_FAILURE
    with pytest.raises(DriverError, match="index 9 is too large"):
        fail_a_kernel()
    driver.check(lib.orDeviceReset())
    assert lib.orGetLastError() == Error.SUCCESS
    driver.synchronize()


SYNCHRONISING = {
    "orDeviceSynchronize": lambda pointer, event, buffer: lib.orDeviceSynchronize(),
    "orStreamSynchronize": lambda pointer, event, buffer: lib.orStreamSynchronize(None),
    "orStreamQuery": lambda pointer, event, buffer: lib.orStreamQuery(None),
    "orEventSynchronize": lambda pointer, event, buffer: lib.orEventSynchronize(event),
    "orEventQuery": lambda pointer, event, buffer: lib.orEventQuery(event),
    "orFree": lambda pointer, event, buffer: lib.orFree(pointer),
    "orMemcpy": lambda pointer, event, buffer: lib.orMemcpy(buffer, pointer, 8, Kind.DEFAULT),
    "orMemcpyAsync": lambda pointer, event, buffer: lib.orMemcpyAsync(buffer, pointer, 8, Kind.DEFAULT, None),
    "orMemset": lambda pointer, event, buffer: lib.orMemset(pointer, 0, 8),
}


@needs_host_kernels
@pytest.mark.parametrize("name", SYNCHRONISING)
@pytest.mark.parametrize("recorded", [False, True])
def test_each_function_that_synchronises_reports(name: str, recorded: bool) -> None:
    pointer, event, buffer = driver.malloc(8), driver.event_create(), ctypes.create_string_buffer(8)
    failed = threading.Event()
    driver.launch(b"breaks", lambda: failed.set() or "index 9 is too large")  # type: ignore[func-returns-value]
    failed.wait()
    if recorded:
        driver.check(lib.orEventRecord(event, None))
    early = {Error.NOT_READY} if name.endswith("Query") else set()  # the kernel may not have returned yet
    if name.startswith("orEvent") and not recorded:
        early.add(Error.SUCCESS)  # an event that was never recorded has passed
    while (error := SYNCHRONISING[name](pointer, event, buffer)) in early:
        pass
    assert error == Error.LAUNCH_FAILURE
    assert driver.detail() == f"{name}: {FAILURE}"


@needs_host_kernels
def test_the_time_of_an_event_that_a_failure_has_dropped() -> None:
    start, end, milliseconds = driver.event_create(), driver.event_create(), ctypes.c_double(7)
    driver.check(lib.orEventRecord(start, None))
    driver.synchronize()
    driver.sleep(0.01)  # so that the kernel is queued, and fails after the record
    fail_a_kernel()
    driver.check(lib.orEventRecord(end, None))
    while (error := lib.orEventElapsedTime(ctypes.byref(milliseconds), start, end)) == Error.NOT_READY:
        pass
    assert (error, milliseconds.value) == (Error.LAUNCH_FAILURE, 7)
    assert driver.detail() == f"orEventElapsedTime: {FAILURE}"


@needs_host_kernels
def test_pinned_memory_is_freed_after_a_failure() -> None:
    pointer = driver.malloc_host(8)
    fail_a_kernel()
    assert lib.orDeviceSynchronize() == Error.LAUNCH_FAILURE
    driver.free_host(pointer)
    assert lib.orFreeHost(pointer) == Error.INVALID_POINTER


@needs_host_kernels
@pytest.mark.needs("two devices")
def test_a_failure_does_not_reach_other_devices() -> None:
    fail_a_kernel()
    driver.set_device(1)
    driver.synchronize()
    driver.free(driver.malloc(8))


@needs_host_kernels
def test_the_last_error_of_a_failure_belongs_to_the_threads_that_saw_it() -> None:
    fail_a_kernel()
    seen: list[Error] = []
    thread = threading.Thread(target=lambda: seen.extend([lib.orDeviceSynchronize(), lib.orGetLastError()]))
    thread.start()
    thread.join()
    assert seen == [Error.LAUNCH_FAILURE, Error.LAUNCH_FAILURE]
    assert lib.orPeekLastError() == Error.SUCCESS
    assert lib.orSetDevice(99) == Error.INVALID_DEVICE
    assert lib.orDeviceSynchronize() == Error.LAUNCH_FAILURE
    assert lib.orGetLastError() == Error.LAUNCH_FAILURE


@needs_host_kernels
def test_a_failure_without_a_message() -> None:
    run = driver.RUN(lambda closure, message, message_bytes: 42)
    kernel = driver.HostKernel(b"silent", run, driver.DESTROY(), None, 0)
    driver.check(lib.orLaunchHostKernel(ctypes.byref(kernel), None))
    assert lib.orDeviceSynchronize() == Error.LAUNCH_FAILURE
    assert "kernel 'silent' failed on openreg:0: it returned 42;" in driver.detail()
