"""Captured graphs, under the names that users of other accelerators know.

PyTorch's own `torch.accelerator.Graph` captures and replays on every backend that registers an implementation
(csrc/graph). The backend therefore defines no class.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from torch_openreg import _C


def is_current_stream_capturing() -> bool:
    """Whether work queued on the current stream is recorded into a graph, and does not run."""
    # Not the module's is_initialized(): a torch.Stream and a torch.accelerator.Graph start the driver in C++ alone.
    return _C._is_initialized() and not _C._is_in_bad_fork() and _C._is_current_stream_capturing()


def graph_pool_handle() -> tuple[int, int]:
    """A new memory pool, for several `torch.accelerator.Graph(pool=...)` that share their memory."""
    return _C._new_pool_id()


# LITERALINCLUDE START: graph-captured-block
@contextmanager
def _captured_into(graph: torch.accelerator.Graph) -> Iterator[None]:
    """Captures the block's work on the current stream, which is not a default stream.

    `with graph:` also waits for the device and empties the caches first, which a capture within a program need not do.
    """
    graph.capture_begin()
    try:
        yield
    except BaseException:
        # The end of a capture that has failed is an error of its own; the one that is raised says why.
        with suppress(RuntimeError):
            graph.capture_end()
        raise
    graph.capture_end()


# LITERALINCLUDE END: graph-captured-block
