"""Devices: their number, the current one, and their properties."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import pytest

from tests.driver import openreg as driver
from tests.driver.conftest import RunDriver
from tests.driver.openreg import Error, lib

COUNT = driver.device_count()


def test_version() -> None:
    version = ctypes.c_int()
    driver.check(lib.orDriverGetVersion(ctypes.byref(version)))
    assert version.value == 1000


def test_two_devices_by_default(run_driver: RunDriver) -> None:
    ran = run_driver("print(driver.device_count())")
    assert ran.stdout == "2\n", ran.stderr


@pytest.mark.needs("two devices")
def test_the_current_device_belongs_to_the_thread() -> None:
    driver.set_device(1)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(driver.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]
    assert driver.current_device() == 1


@pytest.mark.parametrize("device", [-1, COUNT, 99])
def test_a_device_out_of_range_is_refused(device: int) -> None:
    stream = ctypes.c_void_p()
    calls: dict[str, Callable[[], Error]] = {
        "orSetDevice": lambda: lib.orSetDevice(device),
        "orGetDeviceProperties": lambda: lib.orGetDeviceProperties(ctypes.byref(driver.DeviceProp()), device),
        "orDeviceGetDefaultStream": lambda: lib.orDeviceGetDefaultStream(ctypes.byref(stream), device),
        "orInjectFault": lambda: lib.orInjectFault(driver.Fault.KERNEL, device, 1),
    }
    for name, call in calls.items():
        assert call() == Error.INVALID_DEVICE
        assert driver.detail() == f"{name}: device {device} does not exist; valid are 0 to {COUNT - 1}"
    assert driver.current_device() == 0


def test_properties() -> None:
    properties = driver.DeviceProp()
    driver.check(lib.orGetDeviceProperties(ctypes.byref(properties), COUNT - 1))
    assert properties.name == b"openreg simulated accelerator"
    assert properties.driver == b"simulated"
    assert properties.total_memory == properties.max_allocation == 4 << 30
    assert properties.allocation_alignment == 512
    assert (properties.major, properties.minor) == (1, 0)
    assert (properties.compute_units, properties.max_group_size, properties.simd_width) == (1, 1024, 1)
    assert (properties.local_memory, properties.has_unified_memory) == (64 << 10, 0)
    assert (properties.has_fp16, properties.has_bf16, properties.has_fp64) == (1, 0, 1)
    assert bytes(properties.uuid) == b"simulated dev. " + bytes([COUNT - 1])


@pytest.mark.needs("two devices")
def test_reset_is_for_one_device() -> None:
    here = driver.malloc(100)
    driver.set_device(1)
    there = driver.malloc(100)
    driver.check(lib.orDeviceReset())
    driver.write(here, b"kept")
    assert driver.read(here, 4) == b"kept"
    assert lib.orFree(there) == Error.FREED_POINTER


def test_reset_ends_memory_streams_and_events_but_not_the_default_stream() -> None:
    pointer, stream, event = driver.malloc(64 << 20), driver.stream_create(), driver.event_create()
    default = ctypes.c_void_p()
    driver.check(lib.orDeviceGetDefaultStream(ctypes.byref(default), 0))
    driver.sleep(60, stream)
    driver.sleep(60)
    driver.check(lib.orDeviceReset())
    free, total = driver.mem_get_info()
    assert free == total
    assert lib.orFree(pointer) == Error.FREED_POINTER
    assert lib.orStreamQuery(stream) == Error.INVALID_HANDLE
    assert lib.orEventQuery(event) == Error.INVALID_HANDLE
    driver.check(lib.orStreamQuery(default))
    # New handles reuse the slots of the destroyed ones, and are not confused with them.
    assert driver.stream_create() != stream
    assert driver.event_create() != event
    assert lib.orStreamQuery(stream) == Error.INVALID_HANDLE


def test_a_thread_that_waits_learns_that_a_reset_dropped_its_work() -> None:
    stream = driver.stream_create()
    driver.sleep(60, stream)
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.extend([lib.orStreamSynchronize(stream), driver.detail()]))
    thread.start()
    thread.join(0.5)  # time enough to begin its wait
    driver.check(lib.orDeviceReset())
    thread.join()
    assert seen == [
        Error.LAUNCH_FAILURE,
        "orStreamSynchronize: orDeviceReset of openreg:0 dropped the work that this call waited for",
    ]
    driver.synchronize()
