"""Replaces a kernel of the backend by a Python function."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])
_kept: list[torch.library.Library] = []  # a destroyed library removes its kernels


def kernel(operator: str, key: str = "PrivateUse1") -> Callable[[_Function], _Function]:
    """Decorates the replacement."""

    def decorate(function: _Function) -> _Function:
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the overridden kernel
            library.impl(operator, function, key, allow_override=True)
        _kept.append(library)
        return function

    return decorate
