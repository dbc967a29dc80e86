"""openreg_ipc.h: memory and events that two processes share."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.driver import openreg as driver
from tests.driver.openreg import DriverError, Error, Fault, MemoryType, lib

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import ctypes, sys
from tests.driver import openreg as driver
from tests.driver.openreg import lib
for line in sys.stdin:
    try:
        answer = eval(line)
    except driver.DriverError as error:
        answer = str(error)
    print(repr(int(answer) if isinstance(answer, driver.Error) else answer), flush=True)
"""


class Peer:
    """Another process with a driver of its own. A call evaluates an expression there."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, expression: str) -> object:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(expression, file=self.process.stdin, flush=True)
        return eval(self.process.stdout.readline())

    def kill(self) -> None:
        """Ends the process, but leaves it for its parent to wait for."""
        self.process.kill()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def peer() -> Iterator[Peer]:
    other = Peer()
    yield other
    other.process.kill()
    other.process.communicate()


SHARED = driver.EVENT_DISABLE_TIMING | driver.EVENT_INTERPROCESS


def refused(error: Error, text: str, code: Error) -> None:
    """Checks that the function returned this error and left exactly this detail."""
    assert (code, driver.detail()) == (error, text)


@pytest.mark.parametrize("size", [1, 512, 65536, 65537, 3_000_000])
def test_two_processes_see_the_same_bytes(peer: Peer, size: int) -> None:
    before = driver.malloc(1000)  # so that the pages do not begin at a multiple of their size
    pointer = driver.malloc_shareable(size)
    assert pointer % 65536 == 0
    pattern = bytes(index % 251 for index in range(size))
    driver.write(pointer, pattern)
    there = peer(f"driver.open_memory({driver.memory_handle(pointer)!r})")
    assert peer(f"driver.read({there}, {size})") == pattern
    assert peer(f"driver.check(lib.orMemset({there}, 7, {size}))") is None
    assert driver.read(pointer, size) == b"\7" * size
    found = driver.attributes(pointer)
    assert (found.type, found.device, found.base, found.size) == (MemoryType.DEVICE, 0, pointer, size)
    assert peer(f"driver.attributes({there}).size") == size
    assert peer(f"driver.check(lib.orIpcCloseMemory({there}))") is None
    driver.free(pointer)
    driver.free(before)


def test_memory_outlives_the_process_that_made_it(peer: Peer) -> None:
    pointer = peer("driver.malloc_shareable(1000)")
    peer(f"driver.write({pointer}, b'x' * 1000)")
    handle = peer(f"driver.memory_handle({pointer})")
    assert isinstance(handle, bytes)
    here = driver.open_memory(handle)
    peer.kill()
    assert driver.read(here, 1000) == b"x" * 1000
    with pytest.raises(DriverError, match=f"process {peer.process.pid} has freed what the handle names, or has ended"):
        driver.open_memory(handle)
    driver.check(lib.orIpcCloseMemory(here))


def test_freed_memory_is_private_again(peer: Peer) -> None:
    pointer = driver.malloc_shareable(65536)
    driver.write(pointer, b"secret")
    handle = driver.memory_handle(pointer)
    there = peer(f"driver.open_memory({handle!r})")
    free_before, _ = driver.mem_get_info()
    driver.free(pointer)
    assert driver.mem_get_info()[0] == free_before + 65536
    again = driver.malloc(65536)
    assert again == pointer
    assert driver.read(again, 6) == bytes(6)
    driver.write(again, b"others")
    assert peer(f"driver.read({there}, 6)") == b"secret"
    assert "has freed what the handle names" in str(peer(f"driver.open_memory({handle!r})"))


def test_a_reset_ends_the_sharing(peer: Peer) -> None:
    pointer = driver.malloc_shareable(100)
    driver.write(pointer, b"a" * 100)
    there = peer(f"driver.open_memory({driver.memory_handle(pointer)!r})")
    handle = driver.memory_handle(pointer)
    _, total = driver.mem_get_info()
    driver.check(lib.orDeviceReset())
    assert driver.mem_get_info() == (total, total)
    assert peer(f"driver.read({there}, 100)") == b"a" * 100
    assert "has freed what the handle names" in str(peer(f"driver.open_memory({handle!r})"))


@pytest.mark.needs("two devices")
def test_memory_of_the_second_device(peer: Peer) -> None:
    driver.set_device(1)
    handle = driver.memory_handle(driver.malloc_shareable(64))
    text = "orIpcOpenMemoryHandle: the handle belongs to openreg:1, and the current device is openreg:0"
    assert text in str(peer(f"driver.open_memory({handle!r})"))
    assert peer(f"[driver.set_device(1), driver.read(driver.open_memory({handle!r}), 4)][1]") == bytes(4)


def test_memory_is_shared_and_freed_many_times(peer: Peer) -> None:
    free_before, _ = driver.mem_get_info()
    files = len(os.listdir("/proc/self/fd"))
    kept = [driver.malloc(700) for _ in range(5)]
    for step in range(200):
        pointer = driver.malloc_shareable(1 + step * 997)
        driver.write(pointer, b"z")
        if step % 20 == 0:
            there = peer(f"driver.open_memory({driver.memory_handle(pointer)!r})")
            assert peer(f"(driver.read({there}, 1), driver.check(lib.orIpcCloseMemory({there})))[0]") == b"z"
        driver.free(kept.pop(step % len(kept)))
        kept.append(driver.malloc(300 + step))
        driver.free(pointer)
    for pointer in kept:
        driver.free(pointer)
    assert driver.mem_get_info()[0] == free_before
    assert len(os.listdir("/proc/self/fd")) == files


def test_memory_wrong_arguments() -> None:
    own, shared = driver.malloc(64), driver.malloc_shareable(64)
    handle = ctypes.create_string_buffer(64)
    get, free = lib.orIpcGetMemoryHandle, lib.orIpcCloseMemory
    refused(Error.INVALID_VALUE, "orMallocShareable: pointer is null", lib.orMallocShareable(None, 64))
    refused(Error.INVALID_VALUE, "orIpcGetMemoryHandle: handle is null", get(None, shared))
    refused(
        Error.INVALID_VALUE, "orIpcOpenMemoryHandle: pointer or handle is null", lib.orIpcOpenMemoryHandle(None, b"")
    )
    refused(
        Error.NOT_SUPPORTED,
        "orIpcGetMemoryHandle: openreg:0 + 0x0 belongs to this process alone; allocate it with orMallocShareable",
        get(handle, own),
    )
    refused(Error.INVALID_POINTER, "orIpcGetMemoryHandle: 0x10 is not device memory", get(handle, 16))
    refused(Error.INVALID_POINTER, "orIpcCloseMemory: 0x10 is not device memory", free(16))
    text = "was not opened from a handle; free it with orFree"
    refused(Error.INVALID_POINTER, f"orIpcCloseMemory: openreg:0 + 0x0 {text}", free(own))
    assert get(handle, shared + 8) == Error.MISALIGNED_POINTER
    with pytest.raises(DriverError, match="the handle was not made by the same function"):
        driver.open_memory(bytes(64))
    with pytest.raises(DriverError, match="openreg:0 has no room for 1152921504606846976 bytes"):
        driver.malloc_shareable(1 << 60)
    pointer = ctypes.c_void_p(1)
    driver.check(lib.orMallocShareable(ctypes.byref(pointer), 0))
    assert pointer.value is None
    driver.free(shared)
    assert get(handle, shared) == Error.FREED_POINTER


def test_all_memory_is_shareable_and_faults_are_ordered() -> None:
    free, total = driver.mem_get_info()
    assert free == total
    driver.free(driver.malloc_shareable(total))
    driver.check(lib.orInjectFault(Fault.ALLOCATION, 0, 1))
    with pytest.raises(DriverError, match=r"orMallocShareable: openreg:0 has no room for 64 bytes \(injected fault\)"):
        driver.malloc_shareable(64)
    driver.malloc_shareable(64)


@pytest.mark.parametrize("bytes_named", [0, 65537, 2**40, 2**63, 2**64 - 1])
def test_a_damaged_handle_is_refused(bytes_named: int) -> None:
    handle = bytearray(driver.memory_handle(driver.malloc_shareable(1000)))
    assert int.from_bytes(handle[24:32], "little") == 1000
    handle[24:32] = bytes_named.to_bytes(8, "little")
    with pytest.raises(DriverError) as caught:
        driver.open_memory(bytes(handle))
    assert caught.value.error == Error.INVALID_HANDLE
    assert f"the handle is damaged: {bytes_named} bytes are not the size of what it names" in caught.value.detail


def test_no_process_can_shorten_shared_memory() -> None:
    pointer = driver.malloc_shareable(1000)
    files = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    (file,) = [file for file in files if file.is_symlink() and "memfd:openreg" in str(file.readlink())]
    with pytest.raises(PermissionError):
        os.truncate(file, 0)
    assert driver.read(pointer, 4) == bytes(4)


def test_opened_memory_is_not_freed_as_ones_own(peer: Peer) -> None:
    handle = peer("driver.memory_handle(driver.malloc_shareable(64))")
    assert isinstance(handle, bytes)
    here = driver.open_memory(handle)
    text = "openreg:0 + 0x0 belongs to another process; close it with orIpcCloseMemory"
    refused(Error.INVALID_POINTER, f"orFree: {text}", lib.orFree(here))
    refused(Error.INVALID_POINTER, f"orFreeAsync: {text}", lib.orFreeAsync(here, None))
    text = "openreg:0 + 0x0 belongs to another process, which alone gives its handle away"
    refused(Error.NOT_SUPPORTED, f"orIpcGetMemoryHandle: {text}", lib.orIpcGetMemoryHandle(b" " * 64, here))
    driver.check(lib.orIpcCloseMemory(here))
    assert lib.orIpcCloseMemory(here) == Error.FREED_POINTER


def test_shared_memory_freed_by_a_stream() -> None:
    free_before, _ = driver.mem_get_info()
    pointer, stream = driver.malloc_shareable(64), driver.stream_create()
    driver.sleep(0.02, stream)
    driver.check(lib.orFreeAsync(pointer, stream))
    driver.synchronize(stream)
    assert driver.mem_get_info()[0] == free_before


# Events.


def test_a_stream_waits_for_the_stream_of_another_process(peer: Peer) -> None:
    pointer, event = driver.malloc_shareable(4), driver.event_create(SHARED)
    driver.write(pointer, b"old.")
    there = peer(f"driver.open_memory({driver.memory_handle(pointer)!r})")
    waited = peer(f"driver.open_event({driver.event_handle(event)!r})")
    stream = driver.stream_create()
    driver.sleep(0.2, stream)
    driver.check(lib.orMemsetAsync(pointer, ord("n"), 4, stream))
    driver.check(lib.orEventRecord(event, stream))
    assert lib.orEventQuery(event) == Error.NOT_READY
    assert peer(f"lib.orEventQuery({waited})") == Error.NOT_READY
    assert peer(f"lib.orStreamWaitEvent(None, {waited})") == 0
    assert peer("lib.orStreamQuery(None)") == Error.NOT_READY
    assert peer(f"(driver.synchronize(), driver.read({there}, 4))[1]") == b"nnnn"
    assert lib.orEventQuery(event) == 0


def test_either_process_records_and_waits(peer: Peer) -> None:
    event = driver.event_create(SHARED)
    other = peer(f"driver.open_event({driver.event_handle(event)!r})")
    before = peer("driver.event_create()")
    assert lib.orEventQuery(event) == 0  # never recorded
    assert lib.orEventSynchronize(event) == 0
    assert peer(f"(driver.sleep(0.1), lib.orEventRecord({before}, None))[1]") == 0
    assert peer(f"lib.orEventRecord({other}, None)") == 0
    assert lib.orEventQuery(event) == Error.NOT_READY
    driver.check(lib.orEventSynchronize(event))
    # Not orStreamQuery: the worker of the stream lets the record pass, and counts it as finished after that.
    assert peer(f"lib.orEventQuery({before})") == 0
    assert peer(f"driver.check(lib.orEventDestroy({other}))") is None
    driver.check(lib.orEventRecord(event, None))
    driver.check(lib.orEventSynchronize(event))


def test_records_pass_on_their_own() -> None:
    event, slow, fast = driver.event_create(SHARED), driver.stream_create(), driver.stream_create()
    waiting, before = driver.stream_create(), driver.event_create()
    driver.sleep(0.1, slow)
    driver.check(lib.orEventRecord(before, slow))
    driver.check(lib.orEventRecord(event, slow))
    driver.check(lib.orStreamWaitEvent(waiting, event))
    driver.check(lib.orEventRecord(event, fast))  # passes at once
    assert lib.orEventQuery(event) == 0
    assert lib.orStreamQuery(waiting) == Error.NOT_READY
    driver.synchronize(waiting)
    assert lib.orEventQuery(before) == 0  # orStreamQuery(slow) may come before the worker has counted the record


def test_too_many_records() -> None:
    event, stream = driver.event_create(SHARED), driver.stream_create()
    driver.sleep(0.05, stream)
    for _ in range(64):
        driver.check(lib.orEventRecord(event, stream))
    text = "the event was recorded 64 times, and the first of these records has not passed: wait for it, or use another"
    refused(Error.INVALID_VALUE, f"orEventRecord: {text} event", lib.orEventRecord(event, stream))
    driver.check(lib.orEventSynchronize(event))
    driver.check(lib.orEventRecord(event, stream))


def test_dropped_work_is_known_when_the_records_place_is_used_again(peer: Peer) -> None:
    event = peer(f"driver.event_create({SHARED})")
    handle = peer(f"driver.event_handle({event})")
    assert isinstance(handle, bytes)
    here = driver.open_event(handle)
    assert peer("driver.check(lib.orInjectFault(driver.Fault.KERNEL, 0, 1))") is None
    assert peer(f"(driver.sleep(0.5), lib.orEventRecord({event}, None))[1]") == 0
    stream = driver.stream_create()
    driver.sleep(1.5, stream)
    driver.check(lib.orStreamWaitEvent(stream, here))
    deadline = time.monotonic() + 30
    while lib.orEventQuery(here) == Error.NOT_READY and time.monotonic() < deadline:
        time.sleep(0.01)
    # The device has failed, and nobody has asked it: it drops these records as well.
    assert peer(f"{{int(lib.orEventRecord({event}, None)) for _ in range(65)}}") == {0}
    assert lib.orStreamSynchronize(stream) == Error.LAUNCH_FAILURE
    assert f"process {peer.process.pid}, which recorded the event, dropped the work before it" in driver.detail()


def recorded_behind_long_work(peer: Peer) -> int:
    """A shared event that the other process has recorded behind a kernel that sleeps for a minute."""
    event = driver.event_create(SHARED)
    other = peer(f"driver.open_event({driver.event_handle(event)!r})")
    assert peer(f"(driver.sleep(60), lib.orEventRecord({other}, None))[1]") == 0
    return event


def test_a_process_that_is_killed_is_noticed(peer: Peer) -> None:
    event = recorded_behind_long_work(peer)
    stream = driver.stream_create()
    driver.check(lib.orStreamWaitEvent(stream, event))
    peer.kill()
    ended = f"process {peer.process.pid}, which recorded the event, has ended before the record passed"
    refused(Error.LAUNCH_FAILURE, f"orEventSynchronize: {ended}", lib.orEventSynchronize(event))
    assert lib.orStreamSynchronize(stream) == Error.LAUNCH_FAILURE
    assert ended in driver.detail()


def test_a_reset_ends_the_wait(peer: Peer) -> None:
    event = recorded_behind_long_work(peer)
    driver.check(lib.orStreamWaitEvent(driver.stream_create(), event))
    begin = time.monotonic()
    driver.check(lib.orDeviceReset())
    assert time.monotonic() - begin < 30


def test_a_reset_ends_the_wait_of_a_host_thread(peer: Peer) -> None:
    event = recorded_behind_long_work(peer)
    waits = Thread(target=lambda: seen.append((lib.orEventSynchronize(event), driver.detail())))
    seen: list[tuple[Error, str]] = []
    waits.start()
    time.sleep(0.1)
    assert waits.is_alive()
    driver.check(lib.orDeviceReset())
    waits.join(30)
    dropped = "orDeviceReset of openreg:0 dropped the work that this call waited for"
    assert seen == [(Error.LAUNCH_FAILURE, f"orEventSynchronize: {dropped}")]


def test_work_that_a_reset_dropped_was_waited_for_in_vain(peer: Peer) -> None:
    event = driver.event_create(SHARED)
    other = peer(f"driver.open_event({driver.event_handle(event)!r})")
    driver.sleep(60)
    driver.check(lib.orEventRecord(event, None))
    stream = peer("driver.stream_create()")
    assert peer(f"lib.orStreamWaitEvent({stream}, {other})") == 0
    driver.check(lib.orDeviceReset())
    dropped = f"process {os.getpid()}, which recorded the event, dropped the work before it: its device failed, or was "
    assert peer(f"lib.orEventSynchronize({other})") == Error.LAUNCH_FAILURE
    assert peer("driver.detail()") == f"orEventSynchronize: {dropped}reset"
    assert peer(f"lib.orStreamSynchronize({stream})") == Error.LAUNCH_FAILURE
    assert dropped in str(peer("driver.detail()"))


def test_work_of_a_device_that_failed_was_waited_for_in_vain(peer: Peer) -> None:
    event = driver.event_create(SHARED)
    other = peer(f"driver.open_event({driver.event_handle(event)!r})")
    driver.check(lib.orEventRecord(event, None))
    assert peer(f"lib.orEventQuery({other})") == 0  # the work before this record is done
    driver.launch(b"failing", lambda: "a kernel failed")
    driver.check(lib.orEventRecord(event, None))
    deadline = time.monotonic() + 30
    while (answer := peer(f"lib.orEventQuery({other})")) == Error.NOT_READY and time.monotonic() < deadline:
        time.sleep(0.01)
    assert answer == Error.LAUNCH_FAILURE
    dropped = "dropped the work before it: its device failed"
    assert dropped in str(peer("driver.detail()"))
    stream = peer("driver.stream_create()")
    assert (
        peer(f"lib.orStreamWaitEvent({stream}, {other})") == 0
    )  # the device comes to know of it later, as of a kernel
    assert peer(f"lib.orStreamSynchronize({stream})") == Error.LAUNCH_FAILURE
    assert dropped in str(peer("driver.detail()"))


def test_event_wrong_arguments() -> None:
    handle = ctypes.create_string_buffer(64)
    own, event = driver.event_create(driver.EVENT_DISABLE_TIMING), ctypes.c_void_p()
    text = "an event for several processes has no times; add orEventDisableTiming"
    create = lib.orEventCreateWithFlags
    refused(Error.INVALID_VALUE, f"orEventCreateWithFlags: {text}", create(ctypes.byref(event), 2))
    text = "flags 0x4 are unknown; valid are orEventDefault, orEventDisableTiming and orEventInterprocess"
    refused(Error.INVALID_VALUE, f"orEventCreateWithFlags: {text}", create(ctypes.byref(event), 4))
    text = "the event belongs to this process alone; create it with orEventInterprocess"
    refused(Error.NOT_SUPPORTED, f"orIpcGetEventHandle: {text}", lib.orIpcGetEventHandle(handle, own))
    refused(Error.INVALID_VALUE, "orIpcGetEventHandle: handle is null", lib.orIpcGetEventHandle(None, own))
    refused(Error.INVALID_VALUE, "orIpcOpenEventHandle: event or handle is null", lib.orIpcOpenEventHandle(None, b""))
    with pytest.raises(DriverError, match="the handle was not made by the same function"):
        driver.open_event(driver.memory_handle(driver.malloc_shareable(64)))


def test_events_leave_nothing_behind() -> None:
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        event = driver.event_create(SHARED)
        opened = driver.open_event(driver.event_handle(event))  # a process may open its own
        driver.check(lib.orEventRecord(event, None))
        driver.check(lib.orEventSynchronize(opened))
        driver.check(lib.orEventDestroy(opened))
        driver.check(lib.orEventDestroy(event))
    assert len(os.listdir("/proc/self/fd")) == files


def test_an_exit_that_drops_work_is_the_end_of_its_process(peer: Peer) -> None:
    event, memory = driver.event_create(SHARED), driver.malloc_shareable(4)
    driver.write(memory, b"old.")
    other = peer(f"driver.open_event({driver.event_handle(event)!r})")
    there = peer(f"driver.open_memory({driver.memory_handle(memory)!r})")
    calls = f"(driver.sleep(60), lib.orMemsetAsync({there}, 110, 4, None), lib.orEventRecord({other}, None))[2]"
    assert peer(calls) == 0
    assert peer.process.stdin is not None
    print("sys.exit()", file=peer.process.stdin, flush=True)
    assert lib.orEventSynchronize(event) == Error.LAUNCH_FAILURE
    assert "which recorded the event, has ended before the record passed" in driver.detail()
    assert driver.read(memory, 4) == b"old."


def test_a_query_and_a_record_after_the_recorder_was_killed(peer: Peer) -> None:
    event = recorded_behind_long_work(peer)
    assert lib.orEventQuery(event) == Error.NOT_READY
    peer.kill()
    deadline = time.monotonic() + 30
    while (answer := lib.orEventQuery(event)) == Error.NOT_READY and time.monotonic() < deadline:
        time.sleep(0.01)
    assert answer == Error.LAUNCH_FAILURE
    assert "which recorded the event, has ended before the record passed" in driver.detail()
    for _ in range(200):  # more than there are records at a time
        driver.check(lib.orEventRecord(event, None))
        driver.check(lib.orEventSynchronize(event))


def test_records_of_others_do_not_hide_that_the_recorder_was_killed(peer: Peer) -> None:
    """They wake who waits more often than it looks, and take the place of the record that never passes."""
    event, waiting = recorded_behind_long_work(peer), driver.stream_create()
    driver.check(lib.orStreamWaitEvent(waiting, event))
    peer.kill()
    for _ in range(200):
        driver.check(lib.orEventRecord(event, None))
        time.sleep(0.001)
    assert lib.orStreamSynchronize(waiting) == Error.LAUNCH_FAILURE
    assert f"process {peer.process.pid}, which recorded the event, has ended before the record" in driver.detail()


def test_the_place_of_a_record_that_never_passes_is_used_again(peer: Peer) -> None:
    event = recorded_behind_long_work(peer)
    peer.kill()
    slow, waiting = driver.stream_create(), driver.stream_create()
    driver.sleep(0.2, slow)
    driver.check(lib.orStreamWaitEvent(slow, event))  # sees the event when its record has lost its place
    for _ in range(70):
        driver.check(lib.orEventRecord(event, waiting))
    assert lib.orStreamSynchronize(slow) == Error.LAUNCH_FAILURE


def test_a_process_without_file_descriptors_waits_on() -> None:
    """Whether the recorder still runs cannot be asked then; that is no reason to say that it has ended."""
    event, stream = driver.event_create(SHARED), driver.stream_create()
    driver.sleep(0.5)
    driver.check(lib.orEventRecord(event, None))
    driver.check(lib.orStreamWaitEvent(stream, event))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, limits[1]))
    try:
        assert lib.orEventQuery(event) in (Error.NOT_READY, Error.SUCCESS)
        driver.check(lib.orEventSynchronize(event))
        driver.check(lib.orStreamSynchronize(stream))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
