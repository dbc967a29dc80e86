"""Profiles more than there is room for, or with a given configuration: python examples/profiler_full.py [TEXT]."""

from __future__ import annotations

import os
import sys

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import profile

config = sys.argv[1] if len(sys.argv) > 1 else '{"records": 30}'
x = torch.rand(4, device="openreg")
with profile(experimental_config=_ExperimentalConfig(custom_profiler_config=config)) as recorded:
    for _ in range(20):
        x.neg_()
print("kernels:", len([event for event in recorded.events() if event.name == "neg"]))
