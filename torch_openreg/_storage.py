"""Storage methods of PyTorch that would touch device memory from the host."""

from __future__ import annotations

import functools

import torch


def refuse_host_access() -> None:
    """Makes `UntypedStorage.byteswap` raise for device memory.

    PyTorch implements it in C++ on the raw pointer, without looking at the device, so that it would end the process
    with a segmentation fault. It is the only such method: all others copy, or refuse, by themselves.
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
