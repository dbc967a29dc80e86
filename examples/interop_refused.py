"""Capsules that lie about their memory, made by hand: DLPack is a C structure, so anybody can fill it."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Managed(ctypes.Structure):
    """DLManagedTensor of dlpack.h: one dimension of float32, without a deleter."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    )  # fmt: skip


def imported(address: int, elements: int, stride: int, device: int) -> Any:
    """What `torch.from_dlpack` makes of the capsule: the values, or the message of the error."""
    shape, strides = (ctypes.c_int64 * 1)(elements), (ctypes.c_int64 * 1)(stride)
    managed = Managed(address, 12, device, 1, 2, 32, 1, shape, strides)
    capsule = _new(ctypes.addressof(managed), b"dltensor", None)
    try:
        return torch.from_dlpack(capsule).tolist()
    except BufferError as error:
        return str(error)


if __name__ == "__main__":
    x, host = torch.arange(4.0, device="openreg:1"), (ctypes.c_float * 4)()
    print("every second element:", imported(x.data_ptr(), 2, 2, device=1))
    print("no element:", imported(0, 0, 1, device=1))
    print(imported(ctypes.addressof(host), 4, 1, device=1).replace(hex(ctypes.addressof(host)), "0x..."))
    print(imported(x.data_ptr(), 4, 1, device=0))
    print(imported(x.data_ptr(), 10_000_000, 1, device=1))
