"""The base: the layer between PyTorch's C++ and the rest of this package.

There are two interchangeable ones: ``compiled`` and ``uncompiled``.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Protocol

import torch

from .device.wire import Layout


# LITERALINCLUDE START: remote-base
class Base(Protocol):
    """What the package needs from a base."""

    def register(self, module: ModuleType) -> None:
        """Names the device, and registers the device module, hooks, guard and the operators that create tensors."""

    def current_device(self) -> int:
        """The index of the current device."""

    def set_device(self, index: int) -> None:
        """Makes a device current."""

    def current_stream(self, index: int) -> int:
        """The number of the current stream of a device."""

    def default_generator(self, index: int) -> Any:
        """The generator of a device: a ``torch.Generator``, or an object with its methods."""

    def empty(self, layout: Layout, index: int) -> torch.Tensor:
        """A new tensor on a device."""

    def grow(self, tensor: torch.Tensor, nbytes: int) -> None:
        """Gives a tensor's storage more bytes."""

    def set_layout(self, tensor: torch.Tensor, layout: Layout) -> None:
        """Gives a tensor another layout over the storage that it has."""


# LITERALINCLUDE END: remote-base


_chosen: list[Base] = []


def choose(chosen: Base) -> None:
    """Chooses a base."""
    _chosen[:] = [chosen]


def base() -> Base:
    """The chosen base."""
    return _chosen[0]
