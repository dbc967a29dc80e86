"""Injected faults."""

from __future__ import annotations

import ctypes

import pytest

from tests.driver import openreg as driver
from tests.driver.conftest import RunDriver
from tests.driver.openreg import DriverError, Error, Fault, Kind, lib


def inject(fault: Fault, count: int = 1, device: int = 0) -> None:
    driver.check(lib.orInjectFault(fault, device, count))


def test_an_unknown_fault() -> None:
    assert lib.orInjectFault(4, 0, 1) == Error.INVALID_VALUE
    assert driver.detail() == "orInjectFault: fault 4 does not exist; valid are 0 to 3"


def test_allocations_fail_as_often_as_ordered() -> None:
    inject(Fault.ALLOCATION, 2)
    for _ in range(2):
        with pytest.raises(DriverError) as caught:
            driver.malloc(100)
        assert caught.value.error == Error.MEMORY_ALLOCATION
        assert caught.value.detail == "orMalloc: openreg:0 has no room for 100 bytes (injected fault)"
    driver.malloc(100)


def test_a_later_order_replaces_the_earlier() -> None:
    inject(Fault.ALLOCATION, 5)
    inject(Fault.ALLOCATION, 0)
    driver.malloc(100)


@pytest.mark.needs("two devices")
def test_faults_are_for_one_device() -> None:
    inject(Fault.ALLOCATION, device=1)
    driver.malloc(100)


def test_a_kernel_fails() -> None:
    stream = driver.stream_create()
    inject(Fault.KERNEL)
    driver.sleep(60, stream)
    assert lib.orStreamSynchronize(stream) == Error.LAUNCH_FAILURE
    assert driver.detail() == (
        "orStreamSynchronize: kernel 'sleep' failed on openreg:0: injected fault; the device runs nothing more until "
        "orDeviceReset"
    )
    driver.check(lib.orDeviceReset())
    driver.sleep(0.001)
    driver.synchronize()


def test_a_kernel_hangs_until_the_reset() -> None:
    stream = driver.stream_create()
    inject(Fault.HANG)
    driver.sleep(0, stream)
    driver.sleep(0)  # the default stream still runs
    driver.check(lib.orStreamSynchronize(None))
    assert lib.orStreamQuery(stream) == Error.NOT_READY
    driver.check(lib.orDeviceReset())
    driver.synchronize()


def test_a_lost_device_says_so_at_once_and_ends_a_hanging_kernel() -> None:
    stream = driver.stream_create()
    inject(Fault.HANG)
    driver.sleep(0, stream)
    inject(Fault.DEVICE_LOST)
    out = ctypes.c_void_p()
    for error in (
        lib.orMalloc(ctypes.byref(out), 1),
        lib.orStreamSynchronize(stream),
        lib.orDeviceSynchronize(),
        lib.orGetLastError(),
        lib.orGetLastError(),
    ):
        assert error == Error.DEVICE_LOST
    assert driver.detail() == "orDeviceSynchronize: openreg:0 is lost (injected fault) until orDeviceReset"
    for other in range(1, driver.device_count()):
        driver.set_device(other)
        driver.synchronize()
    driver.set_device(0)
    driver.check(lib.orDeviceReset())
    assert lib.orPeekLastError() == Error.SUCCESS
    driver.free(driver.malloc(1))


def test_a_loss_counts_more_than_a_failed_kernel() -> None:
    inject(Fault.KERNEL)
    driver.sleep(0)
    assert lib.orDeviceSynchronize() == Error.LAUNCH_FAILURE
    inject(Fault.DEVICE_LOST)
    assert lib.orDeviceSynchronize() == Error.DEVICE_LOST


def test_a_reset_cancels_what_was_ordered() -> None:
    inject(Fault.ALLOCATION, 100)
    inject(Fault.KERNEL, 100)
    inject(Fault.HANG, 100)
    driver.check(lib.orDeviceReset())
    driver.malloc(1)
    driver.sleep(0)
    driver.synchronize()


@pytest.mark.needs("two devices")
def test_another_devices_wait_for_a_hanging_one_ends_with_its_own_reset() -> None:
    driver.set_device(1)
    event = driver.event_create()
    inject(Fault.HANG, device=1)
    driver.sleep(0)
    driver.check(lib.orEventRecord(event, None))
    driver.set_device(0)
    stream = driver.stream_create()
    driver.check(lib.orStreamWaitEvent(stream, event))
    assert lib.orStreamQuery(stream) == Error.NOT_READY
    driver.check(lib.orDeviceReset())
    assert lib.orStreamQuery(stream) == Error.INVALID_HANDLE
    driver.synchronize()


@pytest.mark.needs("two devices")
@pytest.mark.parametrize("is_known", [False, True])
def test_who_waits_for_a_device_that_has_failed_fails_too(is_known: bool) -> None:
    stream = driver.stream_create()  # of device 0
    driver.set_device(1)
    event = driver.event_create(driver.EVENT_DISABLE_TIMING)
    other = driver.stream_create()
    driver.sleep(0.2, other)
    inject(Fault.KERNEL, device=1)
    driver.sleep(0, other)
    driver.check(lib.orEventRecord(event, other))
    if is_known:
        assert lib.orStreamSynchronize(other) == Error.LAUNCH_FAILURE
        assert lib.orStreamWaitEvent(stream, event) == Error.LAUNCH_FAILURE
        driver.set_device(0)
        driver.synchronize()  # nothing was queued there
        return
    driver.check(lib.orStreamWaitEvent(stream, event))
    assert lib.orStreamSynchronize(stream) == Error.LAUNCH_FAILURE
    assert "a stream of openreg:0 waited for work of openreg:1, which has failed" in driver.detail()


@pytest.mark.needs("two devices")
@pytest.mark.parametrize("fails_again", [False, True])
def test_who_comes_late_to_work_that_a_reset_dropped_fails(fails_again: bool) -> None:
    target, copy = driver.malloc(4), driver.malloc(4)
    late = driver.stream_create()
    driver.set_device(1)
    event = driver.event_create(driver.EVENT_DISABLE_TIMING)
    other, source = driver.stream_create(), driver.malloc(4)
    driver.sleep(0.1, other)
    inject(Fault.KERNEL, device=1)
    driver.sleep(0, other)
    driver.check(lib.orMemcpyAsync(target, source, 4, Kind.DEVICE_TO_DEVICE, other))  # dropped
    driver.check(lib.orEventRecord(event, other))
    driver.set_device(0)
    driver.sleep(0.5, late)
    driver.check(lib.orStreamWaitEvent(late, event))
    driver.check(lib.orMemcpyAsync(copy, target, 4, Kind.DEVICE_TO_DEVICE, late))
    driver.set_device(1)
    assert lib.orStreamSynchronize(other) == Error.LAUNCH_FAILURE
    driver.check(lib.orDeviceReset())  # before the late stream gets there
    if fails_again:
        other = driver.stream_create()
        driver.sleep(0, other)
        driver.sleep(0, other)
        driver.synchronize(other)
        inject(Fault.KERNEL, device=1)
        driver.sleep(0, other)
        assert lib.orStreamSynchronize(other) == Error.LAUNCH_FAILURE
        driver.check(lib.orDeviceReset())
    driver.set_device(0)
    assert lib.orStreamSynchronize(late) == Error.LAUNCH_FAILURE
    assert "a stream of openreg:0 waited for work of openreg:1, which has failed" in driver.detail()


@pytest.mark.needs("two devices")
def test_who_waited_for_work_that_was_done_before_the_failure_goes_on() -> None:
    late = driver.stream_create()
    driver.set_device(1)
    event = driver.event_create(driver.EVENT_DISABLE_TIMING)
    other = driver.stream_create()
    driver.sleep(0.05, other)
    driver.check(lib.orEventRecord(event, other))
    driver.set_device(0)
    driver.sleep(0.5, late)
    driver.check(lib.orStreamWaitEvent(late, event))
    driver.check(lib.orEventSynchronize(event))
    driver.set_device(1)
    inject(Fault.KERNEL, device=1)
    driver.sleep(0, other)
    assert lib.orStreamSynchronize(other) == Error.LAUNCH_FAILURE
    driver.set_device(0)
    driver.check(lib.orStreamSynchronize(late))


@pytest.mark.needs("two devices", "kernels")
def test_the_first_work_of_a_stream_fails(run_driver: RunDriver) -> None:
    ran = run_driver(
        """
        from tests.driver.openreg import lib

        late = driver.stream_create()
        driver.set_device(1)
        event, other = driver.event_create(driver.EVENT_DISABLE_TIMING), driver.stream_create()
        gate = threading.Event()
        driver.launch(b"first", lambda: gate.wait() and "it is broken", other)
        driver.check(lib.orEventRecord(event, other))
        driver.check(lib.orStreamWaitEvent(late, event))
        gate.set()
        driver.set_device(0)
        print(driver.Error(lib.orStreamSynchronize(late)).name)
        """,
        OPENREG_LAUNCH="async",
    )
    assert (ran.returncode, ran.stdout) == (0, "LAUNCH_FAILURE\n"), ran.stderr
