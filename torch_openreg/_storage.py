"""Makes storage methods that need host memory raise on device memory, where they would crash or do nothing.

This patches PyTorch's own class, only for storages of this backend, because PyTorch 2.13 has no hook for it.
"""

from __future__ import annotations

import functools
from multiprocessing.reduction import ForkingPickler
from typing import Any, cast

import torch
from torch.multiprocessing.reductions import reduce_storage


# LITERALINCLUDE START: storage-refuse-host-access
def refuse_host_access() -> None:
    """Makes `UntypedStorage.byteswap` raise for device memory.

    PyTorch implements it in C++ on the raw pointer without checking the device, so it would crash with a segmentation
    fault. It is the only such method: all others copy the data or raise.
    """
    original = torch.UntypedStorage.byteswap

    @functools.wraps(original)
    def byteswap(self: torch.UntypedStorage, dtype: torch.dtype) -> None:
        if self.device.type == "openreg":
            raise RuntimeError(
                f"byteswap works on host memory, and this storage is on {self.device}: "
                "swap the bytes of storage.cpu() and copy the result back"
            )
        original(self, dtype)  # type: ignore[no-untyped-call]

    torch.UntypedStorage.byteswap = byteswap  # type: ignore[method-assign, assignment]


# LITERALINCLUDE END: storage-refuse-host-access


# LITERALINCLUDE START: storage-refuse-sharing
def refuse_sharing() -> None:
    """Makes every way of sharing device memory with another process raise, and `is_shared` return False for it.

    PyTorch assumes that the memory of every device except the CPU is already shared. Sending a device tensor through a
    queue fails in a background thread of the sender while the receiver waits forever; an empty one arrives on the CPU.
    """
    storage_class: Any = torch.UntypedStorage
    original_is_shared, original_share = storage_class.is_shared, storage_class.share_memory_
    original_new_shared = storage_class._new_shared.__func__

    @functools.wraps(original_share)
    def share_memory_(self: torch.UntypedStorage) -> torch.UntypedStorage:
        _require_host(self.device)
        return cast(torch.UntypedStorage, original_share(self))

    @functools.wraps(original_new_shared)
    def _new_shared(cls: type[torch.UntypedStorage], size: int, *, device: Any = "cpu") -> torch.UntypedStorage:
        _require_host(torch.device(device))
        return cast(torch.UntypedStorage, original_new_shared(cls, size, device=device))

    def reduce(storage: torch.UntypedStorage) -> tuple[Any, ...]:
        _require_host(storage.device)
        return cast(tuple[Any, ...], reduce_storage(storage))  # type: ignore[no-untyped-call]

    storage_class.is_shared = lambda self: self.device.type != "openreg" and original_is_shared(self)
    storage_class.share_memory_ = share_memory_
    storage_class._new_shared = classmethod(_new_shared)
    ForkingPickler.register(torch.UntypedStorage, reduce)


def _require_host(device: torch.device) -> None:
    if device.type == "openreg":
        raise RuntimeError(
            f"memory of {device} cannot be shared with another process: "
            "share or send tensor.cpu(), and move it to the device there"
        )


# LITERALINCLUDE END: storage-refuse-sharing
