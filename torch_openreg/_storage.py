"""Makes the storage method that needs host memory raise on device memory, where it would crash.

This patches PyTorch's own class, only for storages of this backend, because PyTorch 2.13 has no hook for it.
"""

from __future__ import annotations

import functools

import torch


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
