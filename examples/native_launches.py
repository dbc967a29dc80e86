"""The kernels that a call launches, as the profiler records them on the device."""

from __future__ import annotations

import os

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

from collections.abc import Callable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile


def launched(call: Callable[[], object]) -> str:
    """The names of what ran on the device during a call."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as recorded:
        call()
        torch.openreg.synchronize()
    return ", ".join(event.name for event in recorded.events() if event.device_type != DeviceType.CPU)


x, y = torch.ones(64, 64, device="openreg"), torch.ones(64, 64, device="openreg")
rows, wide, flat = x[::2], torch.ones(4, 1 << 12, device="openreg"), torch.ones(1 << 16, device="openreg")
phase = torch.ones(2, 2, device="openreg") * 1j
for name, call in {
    "x + y": lambda: x + y,
    "x.add_(y)": lambda: x.add_(y),
    "add(x, y, out=x)": lambda: torch.add(x, y, out=x),
    "x - y": lambda: x - y,
    "x.sub_(y)": lambda: x.sub_(y),
    "sub(x, y, out=x)": lambda: torch.sub(x, y, out=x),
    "x * y": lambda: x * y,
    "x.mul_(y)": lambda: x.mul_(y),
    "mul(x, y, out=x)": lambda: torch.mul(x, y, out=x),
    "phase + phase": lambda: phase + phase,
    "x.abs()": lambda: x.abs(),
    "rows.abs()": lambda: rows.abs(),
    "x.fill_(2)": lambda: x.fill_(2),
    "x.zero_()": lambda: x.zero_(),
    "rows.fill_(2)": lambda: rows.fill_(2),
    "x.sum(0)": lambda: x.sum(0),
    "wide.sum(0)": lambda: wide.sum(0),
    "flat.sum()": lambda: flat.sum(),
    "x.mm(y)": lambda: x.mm(y),
    "addmm(x, x, y)": lambda: torch.addmm(x, x, y),
}.items():
    print(f"{name:16} {launched(call)}")
