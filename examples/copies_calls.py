"""Counts with the profiler how often some Python calls reach the two copy operators."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

import torch
from torch.profiler import profile

OPERATORS = ("aten::_copy_from", "aten::_local_scalar_dense")


# LITERALINCLUDE START: copy-calls
def calls() -> dict[str, Callable[[], object]]:
    """One call for each way to copy, keyed by its text."""
    host, square = torch.arange(4.0), torch.ones(2, 2, device="openreg")
    x, y = torch.arange(4.0, device="openreg:0"), torch.zeros(4, device="openreg:1")
    return {
        'host.to("openreg")': lambda: host.to("openreg"),
        "x.copy_(host)": lambda: x.copy_(host),
        "x.cpu()": x.cpu,
        "x.tolist()": x.tolist,
        "x.clone()": x.clone,
        "x.double()": x.double,
        "y.copy_(x)": lambda: y.copy_(x),
        "square.t().contiguous()": lambda: square.t().contiguous(),
        "square.contiguous()": square.contiguous,
        "x[0].item()": x[0].item,
        "bool(x[0])": lambda: bool(x[0]),
    }


# LITERALINCLUDE END: copy-calls


def reached(call: Callable[[], object]) -> Counter[str]:
    """How often the call reaches each operator."""
    with profile() as recorded:
        call()
    names = Counter(event.name for event in recorded.events() or [])
    return Counter({name: names[name] for name in OPERATORS})


if __name__ == "__main__":
    for text, call in calls().items():
        counts = reached(call)
        found = [f"{name.removeprefix('aten::')}: {counts[name]}" for name in OPERATORS if counts[name]]
        print(f"{text:25}{', '.join(found) or 'neither'}")
