"""The life of one call: the operators that run, and where the dispatcher found each one's kernel for the device.

    python examples/overview_trace.py '(torch.ones(2, device="openreg") + 1).frexp()'

An operator that another one calls is indented. Calls inside copies are not shown: they only compute shapes. What
the CPU kernel of a fallback calls is listed as if it were called for the device.
"""

from __future__ import annotations

import os
import sys

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

KINDS = {
    "[kernel]": "kernel of the backend",
    "[math kernel]": "composite of PyTorch",
    "[default backend kernel]": "composite of PyTorch",
    "[backend fallback]": "fallback of the backend",
}


def ancestors(event: FunctionEvent) -> list[FunctionEvent]:
    """The operators that were running when this one was called, innermost first."""
    found: list[FunctionEvent] = []
    parent = event.cpu_parent
    while parent is not None:
        found.append(parent)
        parent = parent.cpu_parent
    return found


def origin(operator: str) -> str:
    """What the dispatcher runs when the highest key left is PrivateUse1."""
    rows = dict(line.split(": ", 1) for line in torch._C._dispatch_dump_table(operator).splitlines())
    return next(kind for mark, kind in KINDS.items() if rows["PrivateUse1"].endswith(mark))


def main() -> None:
    """Runs the expression of the command line under the profiler and prints what ran."""
    torch.ones(1, device="openreg")  # so that the start of the device is not in the trace
    names = torch._C._profiler._ExperimentalConfig(capture_overload_names=True)
    with profile(activities=[ProfilerActivity.CPU], experimental_config=names) as profiled:
        eval(sys.argv[1])
    for event in profiled.events():
        above = ancestors(event)
        if not any(parent.name in ("aten::to", "aten::copy_") for parent in above):
            operator = event.name + (f".{event.overload_name}" if event.overload_name else "")
            print(f"{'  ' * len(above) + operator:<34}{origin(operator)}")


if __name__ == "__main__":
    main()
