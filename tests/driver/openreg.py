"""Python bindings of the driver's interface, through ctypes and without torch.

``lib`` has every function of the public headers under its own name, typed; each returns its error as ``Error``.
The functions below call them and raise ``DriverError``; handles and addresses are plain integers.
"""

from __future__ import annotations

import ctypes
import enum
import importlib.util
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


class Error(enum.IntEnum):
    """The errors of openreg.h."""

    SUCCESS = 0
    INVALID_VALUE = 1
    INVALID_DEVICE = 2
    MEMORY_ALLOCATION = 3
    INVALID_POINTER = 4
    FREED_POINTER = 5
    MISALIGNED_POINTER = 6
    OUT_OF_RANGE = 7
    INVALID_HANDLE = 8
    INVALID_MEMCPY_KIND = 9
    NOT_READY = 10
    LAUNCH_FAILURE = 11
    DEVICE_LOST = 12
    FORKED = 13
    INITIALIZATION = 14
    NOT_SUPPORTED = 15
    DEINITIALIZED = 16
    COMPILATION = 17
    STREAM_CAPTURE_UNSUPPORTED = 18
    STREAM_CAPTURE_INVALIDATED = 19
    STREAM_CAPTURE_UNJOINED = 20
    STREAM_CAPTURE_ISOLATION = 21
    CAPTURED_EVENT = 22


class MemoryType(enum.IntEnum):
    """The kind of memory that a pointer refers to."""

    UNREGISTERED = 0
    HOST = 1
    DEVICE = 2


class Kind(enum.IntEnum):
    """The direction of a copy."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4


class Fault(enum.IntEnum):
    """What orInjectFault can break."""

    ALLOCATION = 0
    KERNEL = 1
    HANG = 2
    DEVICE_LOST = 3


EVENT_DISABLE_TIMING = 1
EVENT_INTERPROCESS = 2


class DeviceProp(ctypes.Structure):
    """orDeviceProp."""

    name: bytes
    driver: bytes
    total_memory: int
    max_allocation: int
    allocation_alignment: int
    local_memory: int
    major: int
    minor: int
    compute_units: int
    max_group_size: int
    simd_width: int
    has_unified_memory: int
    has_fp16: int
    has_bf16: int
    has_fp64: int
    uuid: ctypes.Array[ctypes.c_ubyte]
    _fields_ = [
        ("name", ctypes.c_char * 64),
        ("driver", ctypes.c_char * 64),
        ("total_memory", ctypes.c_size_t),
        ("max_allocation", ctypes.c_size_t),
        ("allocation_alignment", ctypes.c_size_t),
        ("local_memory", ctypes.c_size_t),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("compute_units", ctypes.c_int),
        ("max_group_size", ctypes.c_int),
        ("simd_width", ctypes.c_int),
        ("has_unified_memory", ctypes.c_int),
        ("has_fp16", ctypes.c_int),
        ("has_bf16", ctypes.c_int),
        ("has_fp64", ctypes.c_int),
        ("uuid", ctypes.c_ubyte * 16),
    ]


class PointerAttributes(ctypes.Structure):
    """orPointerAttributes."""

    type: int
    device: int
    base: int | None
    size: int
    _fields_ = [
        ("type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("base", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
    ]


class FunctionAttributes(ctypes.Structure):
    """orFunctionAttributes."""

    argument_count: int
    max_group_size: int
    group_size_multiple: int
    local_memory: int
    _fields_ = [
        ("argument_count", ctypes.c_int),
        ("max_group_size", ctypes.c_size_t),
        ("group_size_multiple", ctypes.c_size_t),
        ("local_memory", ctypes.c_size_t),
    ]


class Argument(ctypes.Structure):
    """orArgument."""

    kept: object
    _fields_ = [("kind", ctypes.c_int), ("bytes", ctypes.c_size_t), ("value", ctypes.c_void_p)]


class LaunchConfig(ctypes.Structure):
    """orLaunchConfig."""

    _fields_ = [("groups", ctypes.c_uint * 3), ("group_size", ctypes.c_uint * 3)]


class Format(enum.IntEnum):
    """What a module is loaded from."""

    SOURCE = 0
    BINARY = 1


RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
DESTROY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
KEEP = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class ActivityKind(enum.IntEnum):
    """What ran."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2


class Activity(ctypes.Structure):
    """orActivity."""

    kind: int
    device: int
    stream: int
    correlation: int
    begin_nanoseconds: int
    end_nanoseconds: int
    copy_kind: int
    name: bytes | None
    bytes: int
    _fields_ = [
        ("kind", ctypes.c_int),
        ("device", ctypes.c_int),
        ("stream", ctypes.c_void_p),
        ("correlation", ctypes.c_uint64),
        ("begin_nanoseconds", ctypes.c_int64),
        ("end_nanoseconds", ctypes.c_int64),
        ("bytes", ctypes.c_size_t),
        ("copy_kind", ctypes.c_int),
        ("name", ctypes.c_char_p),
    ]


ON_ACTIVITY = ctypes.CFUNCTYPE(None, ctypes.POINTER(Activity), ctypes.c_void_p)


class HostKernel(ctypes.Structure):
    """orHostKernel."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("run", RUN),
        ("destroy", DESTROY),
        ("closure", ctypes.c_void_p),
        ("work_bytes", ctypes.c_size_t),
        ("keep", KEEP),
    ]


_INT = ctypes.POINTER(ctypes.c_int)
_SIZE = ctypes.POINTER(ctypes.c_size_t)
_OUT = ctypes.POINTER(ctypes.c_void_p)
_P = ctypes.c_void_p
_STREAM = ctypes.c_void_p
_EVENT = ctypes.c_void_p

# Every function that returns an error, with its arguments.
SIGNATURES: dict[str, list[type]] = {
    "orGetLastError": [],
    "orPeekLastError": [],
    "orDriverGetVersion": [_INT],
    "orGetDeviceCount": [_INT],
    "orGetDevice": [_INT],
    "orSetDevice": [ctypes.c_int],
    "orGetDeviceProperties": [ctypes.POINTER(DeviceProp), ctypes.c_int],
    "orDeviceSynchronize": [],
    "orDeviceReset": [],
    "orMalloc": [_OUT, ctypes.c_size_t],
    "orFree": [_P],
    "orMemGetInfo": [_SIZE, _SIZE],
    "orMallocHost": [_OUT, ctypes.c_size_t],
    "orFreeHost": [_P],
    "orPointerGetAttributes": [ctypes.POINTER(PointerAttributes), _P],
    "orMemcpy": [_P, _P, ctypes.c_size_t, ctypes.c_int],
    "orMemcpyAsync": [_P, _P, ctypes.c_size_t, ctypes.c_int, _STREAM],
    "orMemset": [_P, ctypes.c_int, ctypes.c_size_t],
    "orMemsetAsync": [_P, ctypes.c_int, ctypes.c_size_t, _STREAM],
    "orDeviceGetDefaultStream": [_OUT, ctypes.c_int],
    "orDeviceGetStreamPriorityRange": [_INT, _INT],
    "orStreamCreate": [_OUT],
    "orStreamCreateWithPriority": [_OUT, ctypes.c_int],
    "orStreamDestroy": [_STREAM],
    "orStreamGetDevice": [_STREAM, _INT],
    "orStreamGetPriority": [_STREAM, _INT],
    "orStreamSynchronize": [_STREAM],
    "orStreamQuery": [_STREAM],
    "orStreamWaitEvent": [_STREAM, _EVENT],
    "orEventCreate": [_OUT],
    "orEventCreateWithFlags": [_OUT, ctypes.c_uint],
    "orEventDestroy": [_EVENT],
    "orEventRecord": [_EVENT, _STREAM],
    "orEventSynchronize": [_EVENT],
    "orEventQuery": [_EVENT],
    "orEventElapsedTime": [ctypes.POINTER(ctypes.c_double), _EVENT, _EVENT],
    "orGetKernel": [_OUT, ctypes.c_char_p],
    "orLaunchKernel": [_P, _P, ctypes.c_size_t, _STREAM],
    "orModuleLoad": [_OUT, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p],
    "orModuleGetBinary": [_P, _SIZE, _P],
    "orModuleUnload": [_P],
    "orModuleGetFunction": [_OUT, _P, ctypes.c_char_p],
    "orFunctionGetAttributes": [ctypes.POINTER(FunctionAttributes), _P],
    "orLaunchFunction": [_P, ctypes.POINTER(LaunchConfig), ctypes.POINTER(Argument), ctypes.c_size_t, _STREAM],
    "orFillAsync": [_P, _P, ctypes.c_size_t, ctypes.c_size_t, _STREAM],
    "orMemcpy2DAsync": [
        _P,
        ctypes.c_size_t,
        _P,
        ctypes.c_size_t,
        ctypes.c_size_t,
        ctypes.c_size_t,
        ctypes.c_int,
        _STREAM,
    ],
    "orHostRegister": [_P, ctypes.c_size_t],
    "orHostUnregister": [_P],
    "orMallocAsync": [_OUT, ctypes.c_size_t, _STREAM],
    "orFreeAsync": [_P, _STREAM],
    "orLaunchHostFunction": [_STREAM, HOST_FUNCTION, _P],
    "orDeviceCanAccessPeer": [_INT, ctypes.c_int, ctypes.c_int],
    "orDeviceEnablePeerAccess": [ctypes.c_int],
    "orDeviceDisablePeerAccess": [ctypes.c_int],
    "orMallocShareable": [_OUT, ctypes.c_size_t],
    "orIpcGetMemoryHandle": [ctypes.c_char_p, _P],
    "orIpcOpenMemoryHandle": [_OUT, ctypes.c_char_p],
    "orIpcCloseMemory": [_P],
    "orIpcGetEventHandle": [ctypes.c_char_p, _EVENT],
    "orIpcOpenEventHandle": [_OUT, ctypes.c_char_p],
    "orStreamBeginCapture": [_STREAM, ctypes.c_int],
    "orStreamEndCapture": [_STREAM, _OUT],
    "orStreamGetCaptureInfo": [_STREAM, _INT, ctypes.POINTER(ctypes.c_uint64)],
    "orGraphInstantiate": [_OUT, _P],
    "orGraphLaunch": [_P, _STREAM],
    "orGraphDestroy": [_P],
    "orGraphExecDestroy": [_P],
    "orGraphDebugDotPrint": [_P, ctypes.c_char_p],
    "orActivityStart": [ON_ACTIVITY, _P],
    "orActivityStop": [],
    "orActivitySetCorrelation": [ctypes.c_uint64],
    "orInjectFault": [ctypes.c_int, ctypes.c_int, ctypes.c_uint],
}
# Left out by the build option HOST_KERNELS=OFF.
HOST_KERNEL_SIGNATURES: dict[str, list[type]] = {
    "orLaunchHostKernel": [ctypes.POINTER(HostKernel), _STREAM],
    "orGetHostAlias": [_OUT, _P, ctypes.c_size_t],
}


def library_path() -> Path:
    """The driver: the file that OPENREG_DRIVER_LIBRARY names, otherwise the one inside the installed package.

    The package is located without being imported, because importing it loads torch.
    """
    if named := os.environ.get("OPENREG_DRIVER_LIBRARY"):
        return Path(named)
    spec = importlib.util.find_spec("torch_openreg")
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    for folder in folders:
        if (path := Path(folder, "lib", "libopenreg.so")).exists():
            return path
    raise FileNotFoundError(f"no lib/libopenreg.so in {folders}: build the package, or set OPENREG_DRIVER_LIBRARY")


def _under_another_name(library: Path, folder: str) -> Path:
    """Copies the library under another SONAME, so that the loader treats it as a separate one, with its own devices.

    The loader identifies a library by its file and by its SONAME. A backend that is imported later requests
    libopenreg.so, and would get this one by that name; a reset here would then free the memory of its tensors. The new
    name has the same length, so that nothing in the file moves.
    """
    name = b"\0" + library.name.encode() + b"\0"
    content = library.read_bytes()
    assert content.count(name) == 1, f"{library} has its name {content.count(name)} times"
    copy = Path(folder, library.name)
    copy.write_bytes(content.replace(name, b"\0" + b"t" * len(library.name) + b"\0"))
    return copy


def _load() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.CDLL(str(_under_another_name(library_path(), folder)))
    # A driver leaves out what its device does not have: faults on request, modules, host kernels.
    for name, arguments in {**SIGNATURES, **HOST_KERNEL_SIGNATURES}.items():
        if hasattr(library, name):
            function = getattr(library, name)
            function.argtypes = arguments
            function.restype = Error
    for name in ("orGetErrorName", "orGetErrorString"):
        getattr(library, name).argtypes = [ctypes.c_int]
        getattr(library, name).restype = ctypes.c_char_p
    library.orGetErrorDetail.argtypes = []
    library.orGetErrorDetail.restype = ctypes.c_char_p
    return library


lib = _load()
has_host_kernels = hasattr(lib, "orLaunchHostKernel")


class DriverError(Exception):
    """A function of the driver failed."""

    def __init__(self, error: Error, detail: str) -> None:
        super().__init__(f"{error.name}: {detail}")
        self.error = error
        self.detail = detail


def detail() -> str:
    """The text of the last failing call of this thread."""
    text: bytes = lib.orGetErrorDetail()
    return text.decode()


def check(error: Error) -> None:
    """Raises the error that a function of the driver returned."""
    if error == Error.NOT_READY:
        raise DriverError(error, "")
    if error != Error.SUCCESS:
        raise DriverError(error, detail())


def _handle(function: Callable[..., Error], *arguments: object) -> int:
    out = ctypes.c_void_p()
    check(function(ctypes.byref(out), *arguments))
    return out.value or 0


def _exported(function: Callable[..., Error], exported: int) -> bytes:
    handle = ctypes.create_string_buffer(64)
    check(function(handle, exported))
    return handle.raw


def _number(function: Callable[..., Error], *arguments: object) -> int:
    out = ctypes.c_int()
    check(function(*arguments, ctypes.byref(out)))
    return out.value


def device_count() -> int:
    """The number of devices."""
    return _number(lib.orGetDeviceCount)


def current_device() -> int:
    """The current device of this thread."""
    return _number(lib.orGetDevice)


def set_device(device: int) -> None:
    """Sets the current device of this thread."""
    check(lib.orSetDevice(device))


def malloc(size: int) -> int:
    """Memory of the current device."""
    return _handle(lib.orMalloc, size)


def free(pointer: int) -> None:
    """Frees memory of any device."""
    check(lib.orFree(pointer))


def malloc_host(size: int) -> int:
    """Pinned host memory."""
    return _handle(lib.orMallocHost, size)


def free_host(pointer: int) -> None:
    """Frees pinned host memory."""
    check(lib.orFreeHost(pointer))


def malloc_shareable(size: int) -> int:
    """Memory of the current device that other processes can open."""
    return _handle(lib.orMallocShareable, size)


def memory_handle(pointer: int) -> bytes:
    """The handle of shareable memory."""
    return _exported(lib.orIpcGetMemoryHandle, pointer)


def open_memory(handle: bytes) -> int:
    """Opens the memory of another process."""
    return _handle(lib.orIpcOpenMemoryHandle, handle)


def event_handle(event: int) -> bytes:
    """The handle of an event for several processes."""
    return _exported(lib.orIpcGetEventHandle, event)


def open_event(handle: bytes) -> int:
    """Opens the event of another process."""
    return _handle(lib.orIpcOpenEventHandle, handle)


def mem_get_info() -> tuple[int, int]:
    """Free and total bytes of the current device."""
    free_bytes, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(lib.orMemGetInfo(ctypes.byref(free_bytes), ctypes.byref(total)))
    return free_bytes.value, total.value


def attributes(pointer: int) -> PointerAttributes:
    """What a pointer points to."""
    result = PointerAttributes()
    check(lib.orPointerGetAttributes(ctypes.byref(result), pointer))
    return result


def write(pointer: int, data: bytes) -> None:
    """Copies bytes to the device."""
    check(lib.orMemcpy(pointer, data, len(data), Kind.HOST_TO_DEVICE))


def read(pointer: int, size: int) -> bytes:
    """Copies bytes from the device."""
    buffer = ctypes.create_string_buffer(size)
    check(lib.orMemcpy(buffer, pointer, size, Kind.DEVICE_TO_HOST))
    return buffer.raw


def stream_create(priority: int = 0) -> int:
    """A stream of the current device."""
    return _handle(lib.orStreamCreateWithPriority, priority)


def event_create(flags: int = 0) -> int:
    """An event of the current device."""
    return _handle(lib.orEventCreateWithFlags, flags)


def elapsed(start: int, end: int) -> float:
    """Milliseconds between two events."""
    milliseconds = ctypes.c_double()
    check(lib.orEventElapsedTime(ctypes.byref(milliseconds), start, end))
    return milliseconds.value


def sleep(seconds: float, stream: int | None = None) -> None:
    """Keeps a stream busy."""
    kernel = _handle(lib.orGetKernel, b"sleep")
    nanoseconds = ctypes.c_uint64(int(seconds * 1e9))
    check(lib.orLaunchKernel(kernel, ctypes.byref(nanoseconds), 8, stream))


def synchronize(stream: int | None = None) -> None:
    """Waits for a stream, or for the current device."""
    check(lib.orDeviceSynchronize() if stream is None else lib.orStreamSynchronize(stream))


_alive: set[int] = set()
_callbacks: dict[int, tuple[object, object]] = {}


def launch(
    name: bytes, run: Callable[[], str | None], stream: int | None = None, work_bytes: int = 0
) -> Callable[[], bool]:
    """Launches a Python function as a kernel; the text that it returns, if any, is its failure.

    Returns a function that answers whether the driver has called destroy.
    """

    def on_run(_closure: int | None, message: int, message_bytes: int) -> int:
        failure = run()
        if failure is not None:
            ctypes.memmove(message, failure.encode()[: message_bytes - 1] + b"\0", min(len(failure) + 1, message_bytes))
        return 0 if failure is None else 1

    def on_destroy(closure: int) -> None:
        _alive.remove(closure)

    token = max(_callbacks, default=0) + 1
    callbacks = (RUN(on_run), DESTROY(on_destroy))
    _callbacks[token] = callbacks  # kept: the driver may still be inside a callback when it reports the end
    _alive.add(token)
    kernel = HostKernel(name, callbacks[0], callbacks[1], token, work_bytes)
    error = lib.orLaunchHostKernel(ctypes.byref(kernel), stream)
    if error != Error.SUCCESS and token in _alive:
        raise AssertionError("the driver owns the closure even when the launch fails")
    check(error)
    return lambda: token not in _alive


def host_alias(pointer: int, size: int) -> int:
    """The address at which a kernel finds the bytes of device memory."""
    return _handle(lib.orGetHostAlias, pointer, size)


def module_load(source: str | bytes, options: str | None = None, form: Format = Format.SOURCE) -> int:
    """A module of the current device."""
    image = source.encode() if isinstance(source, str) else source
    return _handle(lib.orModuleLoad, form, image, len(image), options.encode() if options is not None else None)


def module_binary(module: int) -> bytes:
    """The compiled binary of the module."""
    size = ctypes.c_size_t()
    check(lib.orModuleGetBinary(None, ctypes.byref(size), module))
    image = ctypes.create_string_buffer(size.value)
    check(lib.orModuleGetBinary(image, ctypes.byref(size), module))
    return image.raw


def function(module: int, name: str) -> int:
    """A function of the module."""
    return _handle(lib.orModuleGetFunction, module, name.encode())


def pointer(address: int | None) -> Argument:
    """A device address as an argument."""
    return Argument(0, 0, address)


def value(number: ctypes._SimpleCData[int] | ctypes._SimpleCData[float] | ctypes.Structure) -> Argument:
    """A number of a C type as an argument."""
    argument = Argument(1, ctypes.sizeof(number), ctypes.addressof(number))
    argument.kept = number  # keeps it alive as long as the address is in use
    return argument


def local(size: int) -> Argument:
    """Local memory as an argument."""
    return Argument(2, size, None)


def launch_function(
    handle: int, groups: tuple[int, ...], size: tuple[int, ...], *arguments: Argument, stream: int | None = None
) -> None:
    """Launches a function; dimensions that are left out are 1."""
    config = LaunchConfig((*groups, 1, 1)[:3], (*size, 1, 1)[:3])
    array = (Argument * len(arguments))(*arguments)
    check(lib.orLaunchFunction(handle, ctypes.byref(config), array, len(arguments), stream))
