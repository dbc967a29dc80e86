"""Puts a function of Python in the place of a kernel of the backend."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])
_kept: list[torch.library.Library] = []  # a library that is gone takes its kernels along


def kernel(operator: str, key: str = "PrivateUse1") -> Callable[[_Function], _Function]:
    """Decorates the function that takes the place."""

    def decorate(function: _Function) -> _Function:
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the kernel that is overridden
            library.impl(operator, function, key, allow_override=True)
        _kept.append(library)
        return function

    return decorate
