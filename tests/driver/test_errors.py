"""Names and descriptions of errors, and the last error."""

from __future__ import annotations

import threading

import pytest

from tests.driver import openreg as driver
from tests.driver.openreg import Error, lib

NAMES = {
    Error.SUCCESS: "orSuccess",
    Error.INVALID_VALUE: "orErrorInvalidValue",
    Error.INVALID_DEVICE: "orErrorInvalidDevice",
    Error.MEMORY_ALLOCATION: "orErrorMemoryAllocation",
    Error.INVALID_POINTER: "orErrorInvalidPointer",
    Error.FREED_POINTER: "orErrorFreedPointer",
    Error.MISALIGNED_POINTER: "orErrorMisalignedPointer",
    Error.OUT_OF_RANGE: "orErrorOutOfRange",
    Error.INVALID_HANDLE: "orErrorInvalidHandle",
    Error.INVALID_MEMCPY_KIND: "orErrorInvalidMemcpyKind",
    Error.NOT_READY: "orErrorNotReady",
    Error.LAUNCH_FAILURE: "orErrorLaunchFailure",
    Error.DEVICE_LOST: "orErrorDeviceLost",
    Error.FORKED: "orErrorForked",
    Error.INITIALIZATION: "orErrorInitialization",
    Error.NOT_SUPPORTED: "orErrorNotSupported",
    Error.DEINITIALIZED: "orErrorDeinitialized",
    Error.COMPILATION: "orErrorCompilation",
    Error.STREAM_CAPTURE_UNSUPPORTED: "orErrorStreamCaptureUnsupported",
    Error.STREAM_CAPTURE_INVALIDATED: "orErrorStreamCaptureInvalidated",
    Error.STREAM_CAPTURE_UNJOINED: "orErrorStreamCaptureUnjoined",
    Error.STREAM_CAPTURE_ISOLATION: "orErrorStreamCaptureIsolation",
    Error.CAPTURED_EVENT: "orErrorCapturedEvent",
}


@pytest.mark.parametrize("error", Error)
def test_every_error_has_a_name_and_a_sentence(error: Error) -> None:
    assert lib.orGetErrorName(error).decode() == NAMES[error]
    assert len(lib.orGetErrorString(error)) > 5


@pytest.mark.parametrize("number", [23, -1, 2**31 - 1])
def test_an_unknown_error_has_a_name_too(number: int) -> None:
    assert lib.orGetErrorName(number) == b"orErrorUnknown"
    assert lib.orGetErrorString(number) == b"the driver has no error of this number"


def test_the_last_error_stays_until_it_is_fetched() -> None:
    assert lib.orGetLastError() == Error.SUCCESS
    assert lib.orSetDevice(99) == Error.INVALID_DEVICE
    driver.check(lib.orSetDevice(0))
    assert lib.orPeekLastError() == Error.INVALID_DEVICE
    assert lib.orGetLastError() == Error.INVALID_DEVICE
    assert lib.orGetLastError() == Error.SUCCESS
    assert lib.orPeekLastError() == Error.SUCCESS


def test_not_ready_is_an_answer_and_no_error() -> None:
    stream = driver.stream_create()
    driver.sleep(5, stream)
    assert lib.orStreamQuery(stream) == Error.NOT_READY
    assert lib.orPeekLastError() == Error.SUCCESS


def test_last_error_and_detail_belong_to_the_thread() -> None:
    assert lib.orSetDevice(99) == Error.INVALID_DEVICE
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.extend([lib.orGetLastError(), driver.detail()]))
    thread.start()
    thread.join()
    assert seen == [Error.SUCCESS, ""]
    assert driver.detail() == f"orSetDevice: device 99 does not exist; valid are 0 to {driver.device_count() - 1}"


NULL_CALLS: dict[str, tuple[list[object], str]] = {
    "orDriverGetVersion": ([None], "version is null"),
    "orGetDeviceCount": ([None], "count is null"),
    "orGetDevice": ([None], "device is null"),
    "orGetDeviceProperties": ([None, 0], "properties is null"),
    "orMalloc": ([None, 1], "pointer is null"),
    "orMallocHost": ([None, 1], "pointer is null"),
    "orMemGetInfo": ([None, None], "free_bytes or total_bytes is null"),
    "orPointerGetAttributes": ([None, None], "attributes is null"),
    "orMemcpy": ([None, b"12", 2, 0], "dst is null"),
    "orMemcpyAsync": ([None, b"12", 2, 0, None], "dst is null"),
    "orMemset": ([None, 0, 1], "pointer is null"),
    "orMemsetAsync": ([None, 0, 1, None], "pointer is null"),
    "orDeviceGetDefaultStream": ([None, 0], "stream is null"),
    "orDeviceGetStreamPriorityRange": ([None, None], "lowest or highest is null"),
    "orStreamCreate": ([None], "stream is null"),
    "orStreamCreateWithPriority": ([None, 0], "stream is null"),
    "orStreamGetDevice": ([None, None], "device is null"),
    "orStreamGetPriority": ([None, None], "priority is null"),
    "orEventCreate": ([None], "event is null"),
    "orEventCreateWithFlags": ([None, 0], "event is null"),
    "orEventElapsedTime": ([None, None, None], "milliseconds is null"),
    "orGetKernel": ([None, None], "kernel or name is null"),
    "orModuleLoad": ([None, 0, b"", 0, None], "module or image is null"),
    "orModuleGetFunction": ([None, None, b"add"], "function or name is null"),
    "orFunctionGetAttributes": ([None, None], "attributes is null"),
    "orFillAsync": ([None, None, 4, 1, None], "pattern is null"),
    "orMemcpy2DAsync": ([None, 2, b"12", 2, 2, 1, 0, None], "dst is null"),
    "orHostRegister": ([None, 1], "pointer is null, or bytes is 0"),
    "orMallocAsync": ([None, 1, None], "pointer is null"),
    "orLaunchHostFunction": ([None, driver.HOST_FUNCTION(), None], "function is null"),
    "orDeviceCanAccessPeer": ([None, 0, 1], "can_access is null"),
    "orActivityStart": ([driver.ON_ACTIVITY(), None], "function is null"),
    "orStreamGetCaptureInfo": ([None, None, None], "status or id is null"),
    "orGraphInstantiate": ([None, None], "exec is null"),
    "orGraphDebugDotPrint": ([None, None], "path is null"),
    "orMallocShareable": ([None, 1], "pointer is null"),
    "orIpcGetMemoryHandle": ([None, None], "handle is null"),
    "orIpcOpenMemoryHandle": ([None, None], "pointer or handle is null"),
    "orIpcGetEventHandle": ([None, None], "handle is null"),
    "orIpcOpenEventHandle": ([None, None], "event or handle is null"),
}


@pytest.mark.parametrize("name", NULL_CALLS)
def test_null_arguments_are_named(name: str) -> None:
    arguments, text = NULL_CALLS[name]
    assert getattr(lib, name)(*arguments) == Error.INVALID_VALUE
    assert driver.detail() == f"{name}: {text}"


HANDLES = {
    "orStreamDestroy": "a stream",
    "orStreamSynchronize": "a stream",
    "orStreamQuery": "a stream",
    "orEventDestroy": "an event",
    "orEventSynchronize": "an event",
    "orEventQuery": "an event",
}


@pytest.mark.parametrize("name", HANDLES)
def test_made_up_handles_are_refused(name: str) -> None:
    other = driver.event_create() if HANDLES[name] == "a stream" else driver.stream_create()
    for handle in (0x1234, 2**64 - 1, other):
        assert getattr(lib, name)(handle) == Error.INVALID_HANDLE
        assert driver.detail() == f"{name}: {handle:#x} is not {HANDLES[name]}, or no longer"
