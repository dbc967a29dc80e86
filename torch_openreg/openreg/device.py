"""Devices: how many there are, which one is current, and waiting for one."""

from __future__ import annotations

from typing import Any

import torch

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init
from torch_openreg.openreg._utils import _index


def device_count() -> int:
    """The number of devices; 0, with a warning that gives the reason, if the driver cannot start."""
    return _C._device_count()


def is_available() -> bool:
    """Whether there is a device to use."""
    return device_count() > 0


def current_device() -> int:
    """The index of the calling thread's current device. Every thread starts with device 0."""
    if torch.compiler.is_compiling():  # Dynamo compiles again for another index, which it does for PyTorch's own query
        return torch.accelerator.current_device_index()  # NOT PROVEN: traced, not run
    _lazy_init()
    return _C._current_device()


def set_device(device: torch.device | int | str) -> None:
    """Makes a device current for the calling thread. A device without an index changes nothing.

    Raises:
        RuntimeError: if the index is out of range; the message names the valid ones.
        ValueError: if the device is not a device of openreg.
    """
    _lazy_init()
    _C._set_device(_index(device))


def synchronize(device: torch.device | int | str | None = None) -> None:
    """Waits until all work of the device (default: the current one) has finished.

    Without an argument it does nothing in a process that has used no device: `torch.profiler.profile` calls it at its
    end, also on a machine without one, and in a forked child.

    Raises:
        torch.AcceleratorError: if a kernel failed; the message names it.
    """
    if device is None and not _C._is_initialized():
        return
    _lazy_init()
    _C._synchronize(_index(device))


class device:  # noqa: N801 - spelled like torch.cuda.device
    """Context manager that makes a device current and restores the previous one on exit.

    Args:
        device: an index, a `torch.device` or a string such as `"openreg:1"`. -1, None and `"openreg"` change nothing.
    """

    def __init__(self, device: torch.device | int | str | None) -> None:
        self._index = _index(device)
        self._previous: list[int] = []  # an item for each block, since blocks may be nested

    def __enter__(self) -> None:
        _lazy_init()
        self._previous.append(_C._exchange_device(self._index) if self._index != -1 else -1)

    def __exit__(self, *_: Any) -> None:
        _C._set_device(self._previous.pop())  # -1 means the current device: nothing changes
