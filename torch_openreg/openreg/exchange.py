"""The current device, for libraries: follow a tensor, or switch and remember what was before."""

from __future__ import annotations

import torch

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init
from torch_openreg.openreg.device import device


# LITERALINCLUDE START: exchange-device-of
class device_of(device):  # noqa: N801 - the spelling that torch.cuda.device_of set
    """Context manager that makes the device of a tensor or storage current, and afterwards the one before.

    Args:
        tensor: one that is not on a device of openreg changes nothing.
    """

    def __init__(self, tensor: torch.Tensor | torch.UntypedStorage) -> None:
        super().__init__(tensor.device if tensor.device.type == "openreg" else None)


# LITERALINCLUDE END: exchange-device-of


# LITERALINCLUDE START: exchange-devices
def _exchange_device(device: int) -> int:
    """Makes a device current and returns the index of the one before. A negative index changes nothing and gives -1.

    Raises:
        RuntimeError: if the index is out of range; the text names the valid ones.
    """
    if device < 0:
        return -1
    _lazy_init()
    return _C._exchange_device(device)


def _maybe_exchange_device(device: int) -> int:
    """The same, for going back to a device: where that alone would create a context, a driver may leave it out.

    This driver has no contexts, so there is nothing to leave out.
    """
    return _exchange_device(device)


# LITERALINCLUDE END: exchange-devices
