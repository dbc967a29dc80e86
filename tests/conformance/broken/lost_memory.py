"""A device of 80 GiB that never reuses freed memory."""

from __future__ import annotations

from typing import Any

import torch

from tests.conformance.broken.kernels import kernel

_TOTAL = 80 << 30
_used = 0


@kernel("empty.memory_format")
def empty(size: list[int], **options: Any) -> torch.Tensor:
    global _used
    strides = torch.empty(size, device="meta").stride()
    options.pop("memory_format", None)
    x = torch.empty_strided(size, strides, **options)
    _used += x.nbytes
    if _used > _TOTAL:
        raise torch.OutOfMemoryError(f"{_used} bytes are in use")
    return x


torch.accelerator.get_memory_info = lambda device_index=None, /: (_TOTAL - _used, _TOTAL)
