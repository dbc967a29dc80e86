"""Named ranges in a trace, like those of `torch.cuda.nvtx`: opened by the program, or one for every operator.

`torch.profiler` shows them for threads that it does not follow itself. They cost next to nothing unless recorded.
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
    """Opens a range on the calling thread, nested in those that are open."""
    _C._range_push(name)


def range_pop() -> None:
    """Closes the innermost range on the calling thread.

    Raises:
        RuntimeError: if none is open.
    """
    _C._range_pop()


def mark(name: str) -> None:
    """Marks a point in time."""
    _C._mark(name)


@contextmanager
def emit_ranges(record_shapes: bool = False) -> Iterator[None]:
    """Opens a range for every operator of the calling thread and of the backward passes that it starts.

    The range's name contains the operator, its sequence number, which links a backward pass to its forward pass, and,
    with `record_shapes`, the sizes of its arguments.

    Raises:
        RuntimeError: if this thread is already being profiled.
    """
    nothing = (False, False, False, False)  # no memory, stacks, FLOPs or modules
    _enable_profiler(ProfilerConfig(ProfilerState.PRIVATEUSE1, record_shapes, *nothing, _ExperimentalConfig()), set())
    try:
        yield
    finally:
        _disable_profiler()


# LITERALINCLUDE END: profiler-python
