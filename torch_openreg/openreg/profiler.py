"""Named ranges in a trace, as `torch.cuda.nvtx` has them: those that a program opens, or one for every operator.

`torch.profiler` shows them for threads that it does not follow itself. While nobody records they cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch._C._autograd import _disable_profiler, _enable_profiler
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

from torch_openreg import _C

__all__ = ["emit_ranges", "mark", "range_pop", "range_push"]


# LITERALINCLUDE START: profiler-python
def range_push(name: str) -> None:
    """Opens a range of the calling thread, inside those that are open."""
    _C._range_push(name)


def range_pop() -> None:
    """Closes the innermost range of the calling thread.

    Raises:
        RuntimeError: if none is open.
    """
    _C._range_pop()


def mark(name: str) -> None:
    """Marks a point in time."""
    _C._mark(name)


@contextmanager
def emit_ranges(record_shapes: bool = False) -> Iterator[None]:
    """Makes every operator of the calling thread, and of the backward passes that it starts, a range.

    The name has the operator, its sequence number, by which a backward pass finds the forward pass, and with
    `record_shapes` the sizes of its arguments.

    Raises:
        RuntimeError: if this thread is being profiled already.
    """
    nothing = (False, False, False, False)  # neither memory, stacks, flops nor modules
    _enable_profiler(ProfilerConfig(ProfilerState.PRIVATEUSE1, record_shapes, *nothing, _ExperimentalConfig()), set())
    try:
        yield
    finally:
        _disable_profiler()


# LITERALINCLUDE END: profiler-python
