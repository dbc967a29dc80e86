"""Compiles and launches a kernel with only the functions of openreg_modules.h: no operator, no C++."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

import torch_openreg

driver = ctypes.CDLL(str(Path(torch_openreg._C.__file__).parent / "lib" / "libopenreg.so"))
driver.orGetErrorDetail.restype = ctypes.c_char_p


# LITERALINCLUDE START: by-hand-types
class Argument(ctypes.Structure):
    """orArgument: 0 is a pointer, 1 a value, 2 local memory."""

    _fields_ = (("kind", ctypes.c_int), ("bytes", ctypes.c_size_t), ("value", ctypes.c_void_p))


class LaunchConfig(ctypes.Structure):
    """orLaunchConfig: groups, and the work-items of each."""

    _fields_ = (("groups", ctypes.c_uint * 3), ("group_size", ctypes.c_uint * 3))


def check(error: int) -> None:
    """Raises the driver's message if the last call failed."""
    if error != 0:
        raise RuntimeError(driver.orGetErrorDetail().decode())


# LITERALINCLUDE END: by-hand-types
# LITERALINCLUDE START: by-hand-launch
SOURCE = b"""
__kernel void scale(__global float* x, float factor, int count) {
  const int i = (int)get_global_id(0);
  if (i < count) x[i] *= factor;
}
"""


def function_of(source: bytes, name: bytes) -> ctypes.c_void_p:
    """Compiles a source for the current device, and looks up a function in it."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(driver.orModuleLoad(ctypes.byref(module), 0, source, ctypes.c_size_t(len(source)), None))
    check(driver.orModuleGetFunction(ctypes.byref(function), module, name))
    return function


def scale(x: torch.Tensor, factor: float) -> None:
    """Multiplies a dense float32 tensor in place, on the default stream of its device."""
    if x.numel() == 0:
        return  # the driver refuses a launch without work-items
    number, count = ctypes.c_float(factor), ctypes.c_int(x.numel())
    arguments = (Argument * 3)(
        Argument(0, 8, x.data_ptr()),
        Argument(1, 4, ctypes.addressof(number)),
        Argument(1, 4, ctypes.addressof(count)),
    )
    group = 64
    config = LaunchConfig(((x.numel() + group - 1) // group, 1, 1), (group, 1, 1))
    with torch.openreg.device(x.device):
        function = function_of(SOURCE, b"scale")
    check(driver.orLaunchFunction(function, ctypes.byref(config), arguments, ctypes.c_size_t(3), None))


# LITERALINCLUDE END: by-hand-launch

if __name__ == "__main__":
    x = torch.arange(5.0, device="openreg:1")  # not the current device
    scale(x, 10)
    scale(x[:0], 10)
    print(x.cpu())
    try:
        function_of(SOURCE, b"shrink")
    except RuntimeError as error:
        print("no such function:", "scale" in str(error))
    try:
        function_of(SOURCE.replace(b"get_global_id", b"no_such_id"), b"scale")
    except RuntimeError as error:
        print("does not compile:", "no_such_id" in str(error))
