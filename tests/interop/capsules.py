"""DLPack capsules made by hand, as a producer outside PyTorch makes them, with deleters that are counted."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import torch

EXT_DEV = 12


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER))


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Producer:
    """float32 elements at an address. It must outlive its capsules, since it owns what they point to."""

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        *,
        device: int = 0,
        offset: int = 0,
        versioned: bool = True,
    ) -> None:
        self.device = device
        self.deleted_by: list[int] = []
        self.streams: list[Any] = []
        self.busy_at_delete: list[bool] = []
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self._deleter = DELETER(self._delete)
        self._name = b"dltensor_versioned" if versioned else b"dltensor"
        self.watched: torch.Stream | None = None
        self.managed = Versioned() if versioned else Managed()
        self.managed.deleter = self._deleter
        if isinstance(self.managed, Versioned):
            self.managed.major = 1
        self.managed.tensor = Tensor(
            address, EXT_DEV, device, len(shape), 2, 32, 1, self._shape, self._strides or None, offset
        )

    def _delete(self, managed: int) -> None:
        assert managed == ctypes.addressof(self.managed)
        self.deleted_by.append(threading.get_ident())
        if self.watched is not None:
            self.busy_at_delete.append(not self.watched.query())

    def capsule(self) -> Any:
        """A capsule without a destructor of its own: the test's memory outlives it."""
        return _new(ctypes.addressof(self.managed), self._name, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return EXT_DEV, self.device

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        self.streams.append(stream)
        return self.capsule()
