"""Graphs: what a capture records, what it refuses, and what a launch runs."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.driver import openreg as driver
from tests.driver.conftest import RunDriver
from tests.driver.openreg import EVENT_DISABLE_TIMING, HOST_FUNCTION, Error, Fault, Kind, lib

GLOBAL, THREAD_LOCAL, RELAXED = range(3)
UNSUPPORTED = Error.STREAM_CAPTURE_UNSUPPORTED


def begin(mode: int = THREAD_LOCAL) -> int:
    stream = driver.stream_create()
    driver.check(lib.orStreamBeginCapture(stream, mode))
    return stream


def end(stream: int) -> int:
    graph = ctypes.c_void_p()
    driver.check(lib.orStreamEndCapture(stream, ctypes.byref(graph)))
    return graph.value or 0


def instantiated(graph: int) -> int:
    executable = ctypes.c_void_p()
    driver.check(lib.orGraphInstantiate(ctypes.byref(executable), graph))
    return executable.value or 0


def state(stream: int | None) -> tuple[int, int]:
    status, number = ctypes.c_int(), ctypes.c_uint64()
    driver.check(lib.orStreamGetCaptureInfo(stream, ctypes.byref(status), ctypes.byref(number)))
    return status.value, number.value


def order(stream: int, other: int) -> None:
    """Makes later work of `other` wait for the work of `stream`."""
    device, previous = ctypes.c_int(), driver.current_device()
    driver.check(lib.orStreamGetDevice(stream, ctypes.byref(device)))
    driver.set_device(device.value)
    event = driver.event_create(EVENT_DISABLE_TIMING)
    driver.set_device(previous)
    driver.check(lib.orEventRecord(event, stream))
    driver.check(lib.orStreamWaitEvent(other, event))
    driver.check(lib.orEventDestroy(event))


def run(executable: int, stream: int | None = None) -> None:
    driver.check(lib.orGraphLaunch(executable, stream))
    driver.synchronize(stream)


def test_what_is_captured_runs_with_each_launch() -> None:
    memory, target = driver.malloc(64), driver.malloc(64)
    driver.write(memory, bytes(64))
    calls = []
    function = HOST_FUNCTION(lambda user: calls.append(user))
    stream = begin()
    driver.check(lib.orMemsetAsync(memory, 7, 16, stream))
    driver.check(lib.orFillAsync(memory + 16, b"ab", 2, 4, stream))
    driver.check(lib.orMemcpyAsync(target, memory, 64, Kind.DEVICE_TO_DEVICE, stream))
    driver.check(lib.orMemcpy2DAsync(target + 32, 8, memory, 8, 4, 2, Kind.DEVICE_TO_DEVICE, stream))
    driver.check(lib.orLaunchHostFunction(stream, function, 5))
    graph = end(stream)
    assert (driver.read(memory, 64), calls) == (bytes(64), [])
    executable = instantiated(graph)
    driver.check(lib.orGraphDestroy(graph))  # the executable graph has a life of its own
    expected = b"\7" * 16 + b"abababab" + bytes(8) + b"\7" * 4 + bytes(4) + b"\7" * 4 + bytes(20)
    for count in range(1, 4):
        driver.write(target, b"\xff" * 64)
        run(executable)
        assert (driver.read(target, 64), calls) == (expected, [5] * count)
    driver.check(lib.orGraphExecDestroy(executable))
    assert lib.orGraphLaunch(executable, None) == Error.INVALID_HANDLE
    assert lib.orGraphDestroy(graph) == Error.INVALID_HANDLE


def test_the_state_of_a_stream() -> None:
    stream = driver.stream_create()
    assert state(stream) == state(None) == (0, 0)
    driver.check(lib.orStreamBeginCapture(stream, GLOBAL))
    status, number = state(stream)
    assert status == 1
    assert number > 0
    assert lib.orStreamBeginCapture(stream, GLOBAL) == Error.INVALID_VALUE
    assert lib.orStreamQuery(stream) == UNSUPPORTED
    assert state(stream) == (2, number)
    graph = ctypes.c_void_p(1)
    assert lib.orStreamEndCapture(stream, ctypes.byref(graph)) == Error.STREAM_CAPTURE_INVALIDATED
    assert "since this call: orStreamQuery: the stream is being captured" in driver.detail()
    assert graph.value is None
    assert state(stream) == (0, 0)
    driver.check(lib.orStreamQuery(stream))
    assert lib.orStreamEndCapture(stream, ctypes.byref(graph)) == Error.INVALID_VALUE


@pytest.mark.parametrize(
    "call",
    [
        lambda stream, memory: lib.orStreamSynchronize(stream),
        lambda stream, memory: lib.orStreamDestroy(stream),
        lambda stream, memory: lib.orMemcpyAsync(memory, b"1234", 4, Kind.HOST_TO_DEVICE, stream),
        lambda stream, memory: lib.orMemcpyAsync(
            ctypes.create_string_buffer(4), memory, 4, Kind.DEVICE_TO_HOST, stream
        ),
        lambda stream, memory: lib.orMallocAsync(ctypes.byref(ctypes.c_void_p()), 4, stream),
        lambda stream, memory: lib.orFreeAsync(memory, stream),
        lambda stream, memory: lib.orDeviceSynchronize(),
        lambda stream, memory: lib.orFree(memory),
        lambda stream, memory: lib.orMemset(memory, 0, 4),
        lambda stream, memory: lib.orMemcpy(memory, b"1234", 4, Kind.HOST_TO_DEVICE),
    ],
)
def test_a_call_that_would_wait_is_refused(call: Callable[[int, int], Error]) -> None:
    memory = driver.malloc(64)
    stream = begin()
    assert call(stream, memory) == UNSUPPORTED
    assert driver.detail().endswith("; this invalidates the capture")
    assert lib.orMemsetAsync(memory, 1, 4, stream) == Error.STREAM_CAPTURE_INVALIDATED
    graph = ctypes.c_void_p()
    assert lib.orStreamEndCapture(stream, ctypes.byref(graph)) == Error.STREAM_CAPTURE_INVALIDATED
    driver.check(lib.orMemsetAsync(memory, 1, 4, stream))
    driver.synchronize(stream)
    assert driver.read(memory, 4) == b"\1" * 4
    driver.free(memory)


def test_memory_may_be_allocated_and_in_relaxed_mode_freed() -> None:
    stream = begin(RELAXED)
    memory = driver.malloc(64)
    driver.free(memory)
    driver.check(lib.orDeviceSynchronize())
    end(stream)


def test_a_default_stream_neither_begins_nor_joins() -> None:
    assert lib.orStreamBeginCapture(None, GLOBAL) == UNSUPPORTED
    assert lib.orStreamBeginCapture(driver.stream_create(), 3) == Error.INVALID_VALUE
    stream, event = begin(), driver.event_create(EVENT_DISABLE_TIMING)
    driver.check(lib.orEventRecord(event, stream))
    assert lib.orStreamWaitEvent(None, event) == UNSUPPORTED
    assert lib.orStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p())) == Error.STREAM_CAPTURE_INVALIDATED


@pytest.mark.parametrize("is_valid", [True, False])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_capture_is_discarded(is_valid: bool, elsewhere: bool) -> None:
    memory = driver.malloc(4)
    driver.write(memory, bytes(4))
    stream, side = begin(), driver.stream_create()
    driver.check(lib.orMemsetAsync(memory, 1, 4, stream))
    order(stream, side)
    if not is_valid:
        assert lib.orStreamQuery(stream) == UNSUPPORTED
    results = []
    assert lib.orStreamEndCapture(side, None) == Error.INVALID_VALUE
    thread = threading.Thread(target=lambda: results.append(lib.orStreamEndCapture(stream, None)))
    if elsewhere:
        thread.start()
        thread.join()
    else:
        thread.run()
    assert results == [0]
    assert state(stream) == state(side) == (0, 0)
    assert lib.orStreamEndCapture(stream, None) == Error.INVALID_VALUE
    driver.check(lib.orDeviceSynchronize())
    assert driver.read(memory, 4) == bytes(4)


def test_streams_fork_and_join() -> None:
    memory = driver.malloc(8)
    driver.write(memory, bytes(8))
    stream, side = begin(), driver.stream_create()
    driver.check(lib.orMemsetAsync(memory, 1, 8, stream))
    order(stream, side)
    assert state(side) == state(stream)
    assert lib.orStreamEndCapture(side, ctypes.byref(ctypes.c_void_p())) == Error.INVALID_VALUE
    driver.check(lib.orMemsetAsync(memory + 4, 2, 4, side))
    order(side, stream)
    driver.check(lib.orMemsetAsync(memory + 6, 3, 2, stream))
    graph = end(stream)
    assert state(side) == (0, 0)
    run(instantiated(graph))
    assert driver.read(memory, 8) == b"\1\1\1\1\2\2\3\3"


def test_a_fork_without_a_join() -> None:
    memory = driver.malloc(8)
    stream, side = begin(), driver.stream_create()
    order(stream, side)
    driver.check(lib.orMemsetAsync(memory, 2, 4, side))
    assert lib.orStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p())) == Error.STREAM_CAPTURE_UNJOINED
    driver.check(lib.orStreamSynchronize(side))


def test_events_do_not_cross_the_border_of_a_capture() -> None:
    outside, inside, never = (driver.event_create() for _ in range(3))
    driver.check(lib.orEventRecord(outside, driver.stream_create()))
    stream = begin()
    driver.check(lib.orStreamWaitEvent(stream, never))
    driver.check(lib.orEventRecord(inside, stream))
    end(stream)
    milliseconds = ctypes.c_double()
    for error in (
        lib.orEventSynchronize(inside),
        lib.orEventQuery(inside),
        lib.orEventElapsedTime(ctypes.byref(milliseconds), inside, outside),
        lib.orStreamWaitEvent(driver.stream_create(), inside),
    ):
        assert error == Error.CAPTURED_EVENT
    driver.check(lib.orEventRecord(inside, stream))
    driver.check(lib.orEventSynchronize(inside))
    stream = begin()
    assert lib.orStreamWaitEvent(stream, outside) == Error.STREAM_CAPTURE_ISOLATION
    assert lib.orStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p())) == Error.STREAM_CAPTURE_INVALIDATED


@pytest.mark.needs("two devices")
def test_a_copy_that_would_wait_for_a_captured_device_is_refused() -> None:
    here = driver.malloc(64)
    driver.set_device(1)
    there = driver.malloc(64)
    driver.set_device(0)
    stream = begin()
    assert lib.orMemcpy(there, here, 64, Kind.DEVICE_TO_DEVICE) == UNSUPPORTED
    assert driver.detail().endswith("; this invalidates the capture")
    assert lib.orStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p())) == Error.STREAM_CAPTURE_INVALIDATED


@pytest.mark.parametrize("recorded", [False, True])
def test_a_graph_waits_for_no_event_of_several_processes(recorded: bool) -> None:
    event = driver.event_create(3)  # without times, for several processes
    if recorded:
        driver.check(lib.orEventRecord(event, driver.stream_create()))
    stream = begin()
    assert lib.orStreamWaitEvent(stream, event) == UNSUPPORTED
    assert "a graph cannot wait for an event that several processes share" in driver.detail()
    assert lib.orStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p())) == Error.STREAM_CAPTURE_INVALIDATED


@pytest.mark.needs("host kernels", "queue")
@pytest.mark.parametrize("count", [1, 2])
def test_launches_overlap_unless_they_are_of_one_executable_graph(count: int) -> None:
    running: list[int] = []
    overlapped = threading.Event()

    def body() -> None:
        running.append(1)
        if len(running) > 1:
            overlapped.set()
        overlapped.wait(0.05 if count == 1 else 10)  # time enough for another launch to begin
        running.pop()

    executables = []
    for _ in range(count):
        stream = begin()
        driver.launch(b"body", body, stream, 1 << 30)  # too much work for the calling thread
        executables.append(instantiated(end(stream)))
    streams = [driver.stream_create() for _ in range(2)]
    for _ in range(3):
        driver.check(lib.orGraphLaunch(executables[0], streams[0]))
        driver.check(lib.orGraphLaunch(executables[-1], streams[1]))
    driver.synchronize()
    assert overlapped.is_set() == (count == 2)


def test_a_graph_contains_no_graph() -> None:
    executable = instantiated(end(begin()))
    stream = begin()
    assert lib.orGraphLaunch(executable, stream) == UNSUPPORTED
    assert lib.orStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p())) == Error.STREAM_CAPTURE_INVALIDATED


@pytest.mark.needs("two devices")
def test_a_graph_runs_on_its_device_and_may_reach_another() -> None:
    memory = driver.malloc(4)
    stream = begin()
    driver.set_device(1)
    there, side = driver.malloc(4), driver.stream_create()
    order(stream, side)
    driver.check(lib.orMemsetAsync(there, 9, 4, side))
    order(side, stream)
    driver.set_device(0)
    driver.check(lib.orMemcpyAsync(memory, there, 4, Kind.DEVICE_TO_DEVICE, stream))
    executable = instantiated(end(stream))
    run(executable)
    assert driver.read(memory, 4) == b"\t" * 4
    assert lib.orGraphLaunch(executable, side) == Error.INVALID_VALUE
    assert "captured on openreg:0 and the stream belongs to openreg:1" in driver.detail()


@pytest.mark.needs("two devices")
@pytest.mark.parametrize("is_known", [False, True])
def test_a_graph_that_reaches_a_device_that_has_failed(is_known: bool) -> None:
    driver.set_device(1)
    there, source = driver.stream_create(), driver.malloc(4)
    driver.set_device(0)
    target = driver.malloc(4)
    driver.write(target, b"old0")
    stream = begin()
    order(stream, there)
    driver.check(lib.orMemsetAsync(source, 110, 4, there))
    order(there, stream)
    driver.check(lib.orMemcpyAsync(target, source, 4, Kind.DEVICE_TO_DEVICE, stream))
    executable = instantiated(end(stream))
    driver.check(lib.orInjectFault(Fault.KERNEL, 1, 1))
    driver.sleep(0, there)
    if is_known:
        assert lib.orStreamSynchronize(there) == Error.LAUNCH_FAILURE
        assert lib.orGraphLaunch(executable, stream) == Error.LAUNCH_FAILURE
        driver.synchronize(stream)
        return
    time.sleep(0.2)  # any call would make the failure known
    driver.check(lib.orGraphLaunch(executable, stream))
    assert lib.orStreamSynchronize(stream) == Error.LAUNCH_FAILURE
    assert "a stream of openreg:0 waited for work of openreg:1, which has failed" in driver.detail()


@pytest.mark.needs("two devices")
def test_a_graph_that_ends_with_a_wait_for_a_device_that_has_failed() -> None:
    driver.set_device(1)
    there, memory = driver.stream_create(), driver.malloc(4)
    driver.set_device(0)
    stream = begin()
    order(stream, there)
    driver.check(lib.orMemsetAsync(memory, 110, 4, there))
    order(there, stream)
    executable = instantiated(end(stream))
    driver.check(lib.orInjectFault(Fault.KERNEL, 1, 1))
    driver.sleep(0, there)
    time.sleep(0.2)  # any call would make the failure known
    driver.check(lib.orGraphLaunch(executable, stream))
    assert lib.orStreamSynchronize(stream) == Error.LAUNCH_FAILURE
    assert "a stream of openreg:0 waited for work of openreg:1, which has failed" in driver.detail()


def test_a_reset_ends_captures_and_graphs() -> None:
    memory = driver.malloc(4)
    stream = begin()
    driver.check(lib.orMemsetAsync(memory, 1, 4, stream))
    executable = instantiated(end(stream))
    other = begin()
    driver.check(lib.orDeviceReset())
    assert lib.orStreamEndCapture(other, ctypes.byref(ctypes.c_void_p())) == Error.INVALID_HANDLE
    assert lib.orGraphLaunch(executable, None) == Error.INVALID_HANDLE
    assert "orDeviceReset of openreg:0 freed the memory that the graph uses" in driver.detail()
    driver.check(lib.orDeviceSynchronize())


def test_a_dump(tmp_path: Path) -> None:
    stream = begin()
    driver.sleep(0.001, stream)
    graph = end(stream)
    path = tmp_path / "graph.dot"
    driver.check(lib.orGraphDebugDotPrint(graph, str(path).encode()))
    assert 'label="0: sleep\\ndevice 0"' in path.read_text()
    assert lib.orGraphDebugDotPrint(graph, b"/no/such/folder/x") == Error.INVALID_VALUE


@pytest.mark.needs("kernels", "activity")
@pytest.mark.parametrize("call", ["orActivityStop", "orDeviceReset"])
def test_a_kernel_asks_for_the_capture_while_a_call_waits_for_it(run_driver: RunDriver, call: str) -> None:
    ran = run_driver(f"""
        lib = driver.lib
        stream, begun = driver.stream_create(), threading.Event()

        @driver.RUN
        def run(closure, message, size):
            begun.set()
            time.sleep(0.3)
            status, number = ctypes.c_int(), ctypes.c_uint64()
            print(lib.orStreamGetCaptureInfo(stream, ctypes.byref(status), ctypes.byref(number)).value, flush=True)
            return 0

        on_activity = driver.ON_ACTIVITY(lambda activity, user: None)
        kernel = driver.HostKernel(b"asks", run, driver.DESTROY(), None, 1 << 30, driver.KEEP())
        driver.check(lib.orLaunchHostKernel(ctypes.byref(kernel), stream))
        begun.wait()
        driver.check(lib.orStreamBeginCapture(stream, 1))
        if "{call}" == "orActivityStop":
            driver.check(lib.orActivityStart(on_activity, None))
        print(lib.{call}().value, flush=True)
    """)
    assert (ran.returncode, ran.stdout.split()) == (0, ["0", "0"]), ran.stderr


def over_both(seconds: float) -> tuple[int, int]:
    """An executable graph that sleeps on the first device, then fills memory of the second; and the memory."""
    driver.set_device(1)
    memory, far = driver.malloc(16), driver.stream_create()
    driver.write(memory, bytes(16))
    driver.set_device(0)
    stream = begin()
    driver.sleep(seconds, stream)
    order(stream, far)
    driver.check(lib.orMemsetAsync(memory, 1, 16, far))
    order(far, stream)
    return instantiated(end(stream)), memory


@pytest.mark.needs("two devices", "queue")
def test_a_wait_for_a_graph_of_another_device_ends_with_a_reset() -> None:
    executable, _ = over_both(60)
    driver.check(lib.orGraphLaunch(executable, driver.stream_create()))
    seen: list[object] = []

    def wait() -> None:
        driver.set_device(1)
        seen.append(lib.orDeviceSynchronize())

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.5)  # time enough to begin its wait
    assert thread.is_alive()
    driver.set_device(1)
    driver.check(lib.orDeviceReset())
    thread.join(10)
    assert seen == [Error.LAUNCH_FAILURE]
    driver.set_device(0)
    driver.check(lib.orDeviceReset())


@pytest.mark.needs("two devices", "queue")
def test_a_graph_leaves_memory_alone_that_is_newer_than_a_reset() -> None:
    executable, memory = over_both(0.3)
    stream = driver.stream_create()
    driver.check(lib.orGraphLaunch(executable, stream))
    driver.set_device(1)
    driver.check(lib.orDeviceReset())
    assert driver.malloc(16) == memory
    driver.write(memory, bytes(16))
    driver.set_device(0)
    assert lib.orStreamSynchronize(stream) == Error.LAUNCH_FAILURE  # it needed what the reset has dropped
    driver.set_device(1)
    assert driver.read(memory, 16) == bytes(16)
    driver.set_device(0)
    driver.check(lib.orDeviceReset())


@pytest.mark.long
def test_a_capture_that_begins_within_a_copy_records_none_that_reports_success() -> None:
    """A copy to pageable memory that returned success has copied, whoever begins to capture its stream meanwhile."""
    stream, source, target = driver.stream_create(), driver.malloc(64), ctypes.create_string_buffer(64)
    driver.write(source, b"\7" * 64)
    ends = threading.Event()

    def capture() -> None:
        while not ends.is_set():
            if lib.orStreamBeginCapture(stream, RELAXED) == Error.SUCCESS:
                lib.orStreamEndCapture(stream, None)

    thread = threading.Thread(target=capture)
    thread.start()
    copied = missing = 0
    for _ in range(300_000):
        target[0] = b"\0"
        if lib.orMemcpyAsync(ctypes.addressof(target), source, 64, Kind.DEVICE_TO_HOST, stream) == Error.SUCCESS:
            copied += 1
            missing += target[0] != b"\7"
    ends.set()
    thread.join()
    assert copied > 0
    assert missing == 0
