"""Profiles while another tool already uses the driver's activity record."""

from __future__ import annotations

import ctypes
import os

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

import torch
from torch.profiler import profile

driver = ctypes.CDLL("libopenreg.so")  # the one that the backend has loaded
callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda activity, user: None)
x = torch.rand(4, device="openreg")

driver.orActivityStart(callback, None)
with profile() as recorded:
    x + x
driver.orActivityStop()
print(sorted({event.name for event in recorded.events() if event.name in ("aten::add", "add")}))

with profile() as recorded:
    x + x
print(sorted({event.name for event in recorded.events() if event.name in ("aten::add", "add")}))
