"""Puts a function of Python in the place of a virtual function of the backend: of its guard, or of its hooks.

An object of C++ begins with the address of its table of virtual functions, which has them in the order of the header.
The object gets a copy of the table, in which one is another.
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
_kept: list[Any] = []  # what C++ has the address of


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
    """Decorates the function of Python that takes the place. Its parameters are those in C++ behind `this`."""
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
        slots += [declared] * (2 if declared.startswith("~") else 1)  # a destructor has two
    return slots.index(name)
