"""Captured graphs, under the names that users of other accelerators know.

PyTorch's own `torch.accelerator.Graph` captures and replays on every backend that registers an implementation
(csrc/graph). The backend therefore defines no class.
"""

from __future__ import annotations

from torch_openreg import _C
from torch_openreg.openreg._lazy import is_initialized


def is_current_stream_capturing() -> bool:
    """Whether work queued on the current stream is recorded into a graph, and does not run."""
    return is_initialized() and _C._is_current_stream_capturing()


def graph_pool_handle() -> tuple[int, int]:
    """A new memory pool, for several `torch.accelerator.Graph(pool=...)` that share their memory."""
    return _C._new_pool_id()
