"""Times a kernel by two events on its stream."""

from __future__ import annotations

from collections.abc import Callable

import torch


# LITERALINCLUDE START: native-timing
def milliseconds(work: Callable[[], object], repeat: int = 10) -> float:
    """The average time of a call on the device, without the first one, which compiles and allocates."""
    work()
    start, end = torch.Event("openreg", enable_timing=True), torch.Event("openreg", enable_timing=True)
    start.record()
    for _ in range(repeat):
        work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / repeat


# LITERALINCLUDE END: native-timing

if __name__ == "__main__":
    x = torch.ones(256, 256, device="openreg")
    print("mm takes time:", milliseconds(lambda: x.mm(x)) > 0)
