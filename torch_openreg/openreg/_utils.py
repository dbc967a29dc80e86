"""Converts what users pass as a device to its index. `torch.load` looks up `_get_device_index` in this module."""

from __future__ import annotations

import torch

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init, is_initialized


def _index(device: torch.device | int | str | None) -> int:
    """The index that a user named; -1 for "the current device"."""
    if device is None:
        return -1
    if isinstance(device, bool):
        raise TypeError(f"a device is an index, a name or a torch.device, got {device}")
    if isinstance(device, int):
        if not -(2**63) <= device < 2**63:  # C++ checks all others
            raise ValueError(f"openreg: device index {device} was asked for, and no device has it")
        return device
    device = torch.device(device)
    if device.type != "openreg":
        raise ValueError(f"a device of openreg is needed, got {str(device)!r}")
    return -1 if device.index is None else device.index


def _resolved_if_in_use(device: torch.device | int | str | None) -> int:
    """The same as `_resolved`, but the driver is not started, which knows how many devices there are.

    While no device is in use, the current one is 0, and an index that is too large is not noticed.
    """
    if is_initialized():
        return _resolved(device)
    if (index := _index(device)) < -1:
        raise ValueError(f"openreg: device index {index} was asked for, and no device has it")
    return max(index, 0)


def _resolved(device: torch.device | int | str | None) -> int:
    """The index of the device that a user named (default: the current device). The device must exist."""
    _lazy_init()
    return _C._resolve_device(_index(device))


# LITERALINCLUDE START: utils-device-index
def _get_device_index(device: torch.device | int | str | None, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of a device, without checking that such a device exists.

    Args:
        device: an index, a `torch.device`, a string, or None.
        optional: whether a device without an index means the current one.
        allow_cpu: whether the CPU is allowed. Its index is -1.

    Raises:
        ValueError: if the device has another type, or has no index and `optional` is false.
    """
    if allow_cpu and isinstance(device, (str, torch.device)) and torch.device(device).type == "cpu":
        return -1
    index = _index(device)
    if index == -1 and not isinstance(device, int):
        if not optional:
            raise ValueError(f"an index or a device of openreg with an index is needed, got {str(device)!r}")
        _lazy_init()
        index = _C._current_device()
    return index


# LITERALINCLUDE END: utils-device-index
