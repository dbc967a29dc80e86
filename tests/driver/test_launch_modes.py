"""Where work runs in each mode of OPENREG_LAUNCH, and the driver's tests again in the other modes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.driver import openreg as driver
from tests.driver.conftest import ROOT, RunDriver

needs_host_kernels = pytest.mark.skipif(not driver.has_host_kernels, reason="built with HOST_KERNELS=OFF")

WHERE = """
def where(work_bytes, busy=False):
    stream = driver.stream_create()
    if busy:
        driver.sleep(0.3, stream)
    seen = []
    driver.launch(b"where", lambda: seen.append(threading.get_native_id()), stream, work_bytes)
    driver.synchronize(stream)
    return "caller" if seen == [threading.get_native_id()] else "stream"
print(where(0), where(1 << 20), where((1 << 20) + 1), where(0, busy=True))
"""


@needs_host_kernels
@pytest.mark.parametrize(
    ("mode", "places"),
    [
        ("auto", "caller caller stream stream"),
        ("async", "stream stream stream stream"),
        ("inline", "caller caller caller caller"),
    ],
)
def test_where_a_kernel_runs(run_driver: RunDriver, mode: str, places: str) -> None:
    ran = run_driver(WHERE, OPENREG_LAUNCH=mode)
    assert ran.stdout.strip() == places, ran.stderr


KEPT = """
calls = []
callbacks = (
    driver.RUN(lambda closure, *_: calls.append(f"run {closure}") or 0),
    driver.DESTROY(lambda closure: calls.append(f"destroy {closure}")),
    driver.KEEP(lambda closure: calls.append(f"keep {closure}") or keeps),
)
def launched(work_bytes, stream=None):
    kernel = driver.HostKernel(b"kept", *callbacks[:2], 7, work_bytes, callbacks[2])
    error = driver.lib.orLaunchHostKernel(ctypes.byref(kernel), stream)
    driver.synchronize()
    calls.append(driver.detail() if error else "|")
keeps = 8
launched(0)
launched((1 << 20) + 1)
launched(0, 0x1234)
keeps = None
launched((1 << 20) + 1)
print(*calls)
"""
IN_PLACE, MOVED = "run 7 |", "keep 7 run 8 destroy 8 |"
NO_STREAM = "orLaunchHostKernel: 0x1234 is not a stream, or no longer"
NO_MEMORY = "keep 7 orLaunchHostKernel: the host has no thread or no memory to serve stream 0 of openreg:0"


@needs_host_kernels
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("auto", [IN_PLACE, MOVED, NO_STREAM, NO_MEMORY]),
        ("async", [MOVED, MOVED, NO_STREAM, NO_MEMORY]),
        ("inline", [IN_PLACE, IN_PLACE, NO_STREAM, IN_PLACE]),
    ],
)
def test_a_closure_that_stays_the_callers(run_driver: RunDriver, mode: str, expected: list[str]) -> None:
    ran = run_driver(KEPT, OPENREG_LAUNCH=mode)
    assert ran.stdout.split() == " ".join(expected).split(), ran.stderr


def test_inline_finishes_everything_at_the_call(run_driver: RunDriver) -> None:
    ran = run_driver(
        """
        before = threading.active_count(), len(os.listdir("/proc/self/task"))
        stream, pointer, size = driver.stream_create(), driver.malloc(4 << 20), 4 << 20
        pinned = driver.malloc_host(size)
        start = time.monotonic()
        driver.sleep(0.02, stream)
        assert time.monotonic() - start >= 0.02
        driver.check(driver.lib.orStreamQuery(stream))
        driver.check(driver.lib.orMemsetAsync(pointer, 5, size, stream))
        driver.check(driver.lib.orMemcpyAsync(pinned, pointer, size, driver.Kind.DEFAULT, stream))
        assert ctypes.string_at(pinned, size) == bytes([5]) * size
        event = driver.event_create()
        driver.check(driver.lib.orEventRecord(event, stream))
        driver.check(driver.lib.orEventQuery(event))
        print(before == (threading.active_count(), len(os.listdir("/proc/self/task"))))
        """,
        OPENREG_LAUNCH="inline",
    )
    assert ran.stdout == "True\n", ran.stderr


def test_inline_reports_a_failure_at_the_launch(run_driver: RunDriver) -> None:
    ran = run_driver(
        """
        driver.check(driver.lib.orInjectFault(driver.Fault.KERNEL, 0, 1))
        try:
            driver.sleep(0)
        except driver.DriverError as error:
            print(error)
        print(driver.lib.orDeviceSynchronize().name)
        """,
        OPENREG_LAUNCH="inline",
    )
    assert ran.stdout.splitlines() == [
        "LAUNCH_FAILURE: orLaunchKernel: kernel 'sleep' failed on openreg:0: injected fault; the device runs nothing "
        "more until orDeviceReset",
        "LAUNCH_FAILURE",
    ], ran.stderr


def test_inline_hang_ends_with_a_reset_from_another_thread(run_driver: RunDriver) -> None:
    ran = run_driver(
        """
        driver.check(driver.lib.orInjectFault(driver.Fault.HANG, 0, 1))
        threading.Timer(0.05, driver.lib.orDeviceReset).start()
        driver.sleep(0)
        print("back")
        """,
        OPENREG_LAUNCH="inline",
    )
    assert ran.stdout == "back\n", ran.stderr


def test_a_thread_starts_with_the_first_queued_work(run_driver: RunDriver) -> None:
    ran = run_driver(
        """
        def threads():
            return len(os.listdir("/proc/self/task"))
        before = threads()
        streams = [driver.stream_create() for _ in range(50)]
        event = driver.event_create()
        for stream in streams:
            driver.check(driver.lib.orEventRecord(event, stream))
            driver.check(driver.lib.orStreamWaitEvent(None, event))
        driver.synchronize()
        assert threads() == before, threads()
        driver.sleep(0.01, streams[3])
        assert threads() == before + 1
        for stream in streams:
            driver.check(driver.lib.orStreamDestroy(stream))
        print(threads() - before)
        """
    )
    assert ran.stdout == "0\n", ran.stderr


# Inline has no asynchrony to test, so it runs only files without any.
FILES = {
    "async": [
        *("errors", "devices", "memory", "pinned", "copy", "streams", "events", "kernels", "faults", "ipc"),
        *("graph", "extended", "activity"),
    ],
    "inline": ["memory", "pinned"],
}


@pytest.mark.parametrize("mode", FILES)
def test_the_other_tests_pass_under_the_other_modes(mode: str) -> None:
    files = [f"tests/driver/test_{name}.py" for name in FILES[mode]]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        env=os.environ | {"OPENREG_LAUNCH": mode},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout  # a run that skips everything succeeds, too
