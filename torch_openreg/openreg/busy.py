"""A kernel that only takes time. PyTorch's tests use it to keep a stream busy while they check something else."""

from __future__ import annotations

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init


# LITERALINCLUDE START: busy-sleep
def _sleep(cycles: int) -> None:
    """Keeps the current stream busy for a number of cycles, which are nanoseconds here, and returns at once.

    Raises:
        RuntimeError: for a negative number.
    """
    _lazy_init()
    _C._sleep(cycles)


# LITERALINCLUDE END: busy-sleep
