"""Calls the driver from Python without PyTorch, and says how each call ends.

Run as a script, it prints what devices there are and where their work runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import re
from pathlib import Path
from typing import Any

NOT_READY = 10  # orErrorNotReady: an answer, not an error, so it has no text


# LITERALINCLUDE START: calls-of-the-driver
def _load() -> ctypes.CDLL:
    """The driver of the installed package, which is located but not imported: an import would load PyTorch."""
    spec = importlib.util.find_spec("torch_openreg")
    folders = spec.submodule_search_locations if spec is not None else None
    files = [Path(folder, "lib", "libopenreg.so") for folder in folders or ()]
    return ctypes.CDLL(str(next(file for file in files if file.exists())))


driver = _load()
driver.orGetErrorName.restype = ctypes.c_char_p
driver.orGetErrorString.restype = ctypes.c_char_p
driver.orGetErrorDetail.restype = ctypes.c_char_p
names: dict[int, str] = {}  # what to print instead of an address, which differs in every run


def error_code(function: str, *arguments: Any) -> int:
    """Makes a call and returns what it returned. Integers are passed as 64 bits."""
    passed = [ctypes.c_uint64(each) if isinstance(each, int) else each for each in arguments]
    returned: int = getattr(driver, function)(*passed)
    return returned


def succeeds(function: str, *arguments: Any) -> bool:
    """Makes a call; if it fails, prints the error and the driver's message."""
    error = error_code(function, *arguments)
    if error != 0:
        print(driver.orGetErrorName(error).decode())
    if error not in {0, NOT_READY}:
        text = driver.orGetErrorDetail().decode()
        print("  ", re.sub(r"0x[0-9a-f]+", lambda found: names.get(int(found[0], 16), found[0]), text))
    return error == 0


def call(function: str, *arguments: Any) -> None:
    """Makes a call that prints nothing when it succeeds."""
    succeeds(function, *arguments)


def new(function: str, *arguments: Any, kind: Any = ctypes.c_void_p) -> Any:
    """Makes a call whose result is written to its first argument, a pointer to ``kind``. None if it fails."""
    answer = kind()
    return getattr(answer, "value", answer) if succeeds(function, ctypes.byref(answer), *arguments) else None


# LITERALINCLUDE END: calls-of-the-driver


HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT = range(5)


class Properties(ctypes.Structure):
    """orDeviceProp."""

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


class Attributes(ctypes.Structure):
    """orPointerAttributes."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("base", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
    ]


def attributes(pointer: int) -> tuple[str, int, int | None, int] | None:
    """What a pointer points to: the type, the device, the offset in the allocation, and the allocation's size."""
    found = new("orPointerGetAttributes", pointer, kind=Attributes)
    if found is None:
        return None
    kind = ("unregistered", "host", "device")[found.type]
    return kind, found.device, None if found.base is None else pointer - found.base, found.size


def room() -> tuple[int, int]:
    """Free and total bytes of the current device."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("orMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def write(pointer: int, data: bytes) -> None:
    """Copies bytes to the device."""
    call("orMemcpy", pointer, data, len(data), HOST_TO_DEVICE)


def read(pointer: int, size: int) -> bytes:
    """Copies bytes to the host."""
    target = ctypes.create_string_buffer(size)
    call("orMemcpy", target, pointer, size, DEVICE_TO_HOST)
    return target.raw


def sleep(milliseconds: int, stream: int | None = None) -> None:
    """Keeps a stream busy."""
    time = ctypes.c_uint64(milliseconds * 1_000_000)
    call("orLaunchKernel", new("orGetKernel", b"sleep"), ctypes.byref(time), 8, stream)


def mapping(address: int) -> tuple[str, int]:
    """The permissions of the mapping at an address (read, write, execute, private), and its size."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights = line.split()[:2]
        first, last = (int(end, 16) for end in span.split("-"))
        if first <= address < last:
            return rights, last - first
    raise LookupError(f"nothing is mapped at {address:#x}")


def workers() -> list[str]:
    """The names of the threads that the driver has started."""
    threads = []
    for file in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
            threads.append(file.read_text().strip())
    return sorted(name for name in threads if name.startswith("openreg:"))


# LITERALINCLUDE START: shape-of-the-machine
def main() -> None:
    """Prints the shape of the machine, and whether the caller or threads ran a fill and a kernel."""
    count = new("orGetDeviceCount", kind=ctypes.c_int)
    if count is None:
        return
    pointer = new("orMalloc", 8)
    call("orMemset", pointer, 7, 8)
    after_fill = workers()
    sleep(1)
    call("orDeviceSynchronize")
    print(f"devices: {count}, bytes: {room()[1]}, threads after a fill: {after_fill}, after a kernel: {workers()}")


# LITERALINCLUDE END: shape-of-the-machine


if __name__ == "__main__":
    main()
