"""Replaces a virtual function of the backend's guard or hooks by a Python function.

A C++ object begins with the address of its vtable, which has the virtual functions in the order of the header. The
object gets a copy of the table with one entry replaced.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

_INCLUDE = Path(torch.__file__).parent / "include"
_LIBRARIES = Path(torch.__file__).parent / "lib"
_PRIVATE_USE_1 = 20  # c10::DeviceType::PrivateUse1
_SLOTS = 64  # more than either table has
_Function = TypeVar("_Function", bound=Callable[..., Any])
_kept: list[Any] = []  # C++ holds the addresses of these


def hooks() -> int:
    """The address of the registered hooks."""
    get = ctypes.CDLL(str(_LIBRARIES / "libtorch_cpu.so"))["_ZN2at6detail19getPrivateUse1HooksEv"]
    get.restype = ctypes.c_void_p
    return int(get())


def guard() -> int:
    """The address of the registered guard."""
    registry = (ctypes.c_void_p * (_PRIVATE_USE_1 + 1)).in_dll(
        ctypes.CDLL(str(_LIBRARIES / "libc10.so")), "_ZN3c104impl26device_guard_impl_registryE"
    )
    address = registry[_PRIVATE_USE_1]
    assert address is not None
    return address


HOOKS = (hooks, "ATen/detail/AcceleratorHooksInterface.h")
GUARD = (guard, "c10/core/impl/DeviceGuardImplInterface.h")


def replace(where: Any, name: str, result: Any, *parameters: Any) -> Callable[[_Function], _Function]:
    """Decorates the replacement. Its parameters are those of the C++ function after `this`."""
    address_of, header = where

    def decorate(function: _Function) -> _Function:
        address = address_of()
        callback = ctypes.CFUNCTYPE(result, ctypes.c_void_p, *parameters)(lambda _this, *given: function(*given))
        table = ctypes.c_void_p.from_address(address)
        copy = (ctypes.c_void_p * _SLOTS).from_buffer_copy(ctypes.string_at(table.value or 0, _SLOTS * 8))
        copy[_slot(_INCLUDE / header, name)] = ctypes.cast(callback, ctypes.c_void_p).value
        table.value = ctypes.addressof(copy)
        _kept.extend([callback, copy])
        return function

    return decorate


def _slot(header: Path, name: str) -> int:
    slots: list[str] = []
    for declared in re.findall(r"^  virtual [^;{]*?(~?\w+)\(", header.read_text(encoding="utf-8"), re.MULTILINE):
        slots += [declared] * (2 if declared.startswith("~") else 1)  # a destructor has two slots
    return slots.index(name)
