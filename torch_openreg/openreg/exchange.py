"""The current device, for libraries: switch to a tensor's device, or switch and get the previous device."""

from __future__ import annotations

import torch

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init
from torch_openreg.openreg.device import device


# LITERALINCLUDE START: exchange-device-of
class device_of(device):  # noqa: N801 - spelled like torch.cuda.device_of
    """Context manager that makes the device of a tensor or storage current and restores the previous one on exit.

    Args:
        tensor: a tensor or storage; one that is not on a device of openreg changes nothing.
    """

    def __init__(self, tensor: torch.Tensor | torch.UntypedStorage) -> None:
        super().__init__(tensor.device if tensor.device.type == "openreg" else None)


# LITERALINCLUDE END: exchange-device-of


# LITERALINCLUDE START: exchange-devices
def _exchange_device(device: int) -> int:
    """Makes a device current and returns the previous index. A negative index changes nothing and returns -1.

    Raises:
        RuntimeError: if the index is out of range; the message names the valid ones.
    """
    if device < 0:
        return -1
    _lazy_init()
    return _C._exchange_device(device)


def _maybe_exchange_device(device: int) -> int:
    """Like `_exchange_device`, for restoring a device: may skip the switch if it would only create a context there.

    This driver has no contexts, so it never skips.
    """
    return _exchange_device(device)


# LITERALINCLUDE END: exchange-devices
