"""Loads modules and launches their functions, from Python without PyTorch.

Run as a script, it prints the positions of four work-items in their two groups.
"""

from __future__ import annotations

import ctypes
from typing import Any

from driver_memory import call, new, read  # type: ignore[import-not-found]

SOURCE, BINARY = 0, 1


# LITERALINCLUDE START: modules-in-python
class Argument(ctypes.Structure):
    """orArgument."""

    _fields_ = [("kind", ctypes.c_int), ("bytes", ctypes.c_size_t), ("value", ctypes.c_void_p)]


class LaunchConfig(ctypes.Structure):
    """orLaunchConfig."""

    _fields_ = [("groups", ctypes.c_uint * 3), ("group_size", ctypes.c_uint * 3)]


def load(source: str | bytes, options: bytes | None = None, form: int = SOURCE) -> int | None:
    """Loads a module."""
    image = source.encode() if isinstance(source, str) else source
    module: int | None = new("orModuleLoad", form, image, len(image), options)
    return module


def argument(given: Any) -> Argument:
    """An int is a device address, a ctypes object is a value, and bytes request that much local memory."""
    if given is None or isinstance(given, int):
        return Argument(0, 0, given)
    if isinstance(given, bytes):
        return Argument(2, len(given), None)
    return Argument(1, ctypes.sizeof(given), ctypes.addressof(given))


def launch(
    function: int, groups: tuple[int, ...], size: tuple[int, ...], *given: Any, stream: int | None = None
) -> None:
    """Launches a function; dimensions that are left out are 1."""
    config = LaunchConfig((*groups, 1, 1)[:3], (*size, 1, 1)[:3])
    arguments = (Argument * len(given))(*map(argument, given))
    call("orLaunchFunction", function, ctypes.byref(config), arguments, len(given), stream)


# LITERALINCLUDE END: modules-in-python


class FunctionAttributes(ctypes.Structure):
    """orFunctionAttributes."""

    _fields_ = [
        ("argument_count", ctypes.c_int),
        ("max_group_size", ctypes.c_size_t),
        ("group_size_multiple", ctypes.c_size_t),
        ("local_memory", ctypes.c_size_t),
    ]


# LITERALINCLUDE START: modules-script
def main() -> None:
    """Runs a function that records each work-item's position in its group, in a large launch and then a small one."""
    module = load("__kernel void place(__global char* out) { out[get_global_id(0)] = get_local_id(0); }")
    place = new("orModuleGetFunction", module, b"place")
    out = new("orMalloc", 1 << 20)
    launch(place, (1024,), (1024,), out)
    launch(place, (2,), (2,), out)
    print(list(read(out, 6)))


# LITERALINCLUDE END: modules-script

if __name__ == "__main__":
    main()
