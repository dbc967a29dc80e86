"""What the driver under test offers. A test that needs more is skipped, with the reason.

`@pytest.mark.needs("faults", "queue")` declares what a test, or a file, requires (tests/conftest.py).
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

# For what holds on any device: the last one, since code that ignores an index would use device 0.
_COUNT = torch.get_device_module("openreg").device_count()
LAST_DEVICE = f"openreg:{_COUNT - 1}"
# Two devices where the machine has them; otherwise the one.
DEVICES = [f"openreg:{index}" for index in range(min(_COUNT, 2))]


@cache
def library() -> ctypes.CDLL:
    """The driver that the backend has loaded."""
    package = importlib.import_module("torch_openreg._C").__file__
    assert package is not None
    return ctypes.CDLL(str(Path(package).parent / "lib" / "libopenreg.so"))


def has_host_kernels() -> bool:
    """Whether the driver runs host functions as kernels; without them operators take the fallback."""
    return hasattr(library(), "orLaunchHostKernel")


def _has_faults() -> bool:
    return hasattr(library(), "orInjectFault")


def _has_host_functions() -> bool:
    return hasattr(library(), "orLaunchHostFunction")


def _has_graphs() -> bool:
    return hasattr(library(), "orStreamBeginCapture")


def _shares() -> bool:
    return hasattr(library(), "orMallocShareable") and hasattr(library(), "orIpcGetEventHandle")


def has_activity() -> bool:
    """Whether the driver records what ran when."""
    return hasattr(library(), "orActivityStart")


def is_simulated() -> bool:
    """Whether this is the simulator, with its messages and environment variables."""
    return bool(torch.get_device_module("openreg").get_device_properties(0).driver == "simulated")


def _queues() -> bool:
    stream = torch.accelerator.current_stream(0)
    for _ in range(5):  # a thread that gets no processor meanwhile finds the stream idle
        with torch.get_device_module("openreg").device(0):
            torch.get_device_module("openreg")._sleep(100_000_000)
        is_pending = not stream.query()
        stream.synchronize()
        if is_pending:
            return True
    return False


def _has_kernels() -> bool:
    source = getattr(torch.get_device_module("openreg"), "kernel_source", None)
    return source is not None and source("aten::add.out") in ("native", "host")


def _has_priorities() -> bool:
    least, greatest = ctypes.c_int(), ctypes.c_int()
    assert library().orDeviceGetStreamPriorityRange(ctypes.byref(least), ctypes.byref(greatest)) == 0
    return least.value != greatest.value


# For each name, how to detect the feature, and the skip reason where it is missing.
OFFERS: dict[str, tuple[Callable[[], bool], str]] = {
    "host kernels": (cache(has_host_kernels), "the driver runs no host code as kernels"),
    "host functions": (cache(_has_host_functions), "the driver calls no function of the host in a stream's order"),
    "faults": (cache(_has_faults), "the driver injects no faults"),
    "sharing": (_shares, "the driver shares no memory and no events between processes"),
    "activity": (cache(has_activity), "the driver does not record what runs"),
    "graphs": (cache(_has_graphs), "the driver captures no graphs"),
    "kernels": (cache(_has_kernels), "every operator takes the fallback, which waits for it"),
    "two devices": (lambda: _COUNT > 1, "the machine has one device"),
    "queue": (cache(_queues), "the driver queues nothing: a call returns when its work is done"),
    "priorities": (cache(_has_priorities), "the streams of the driver have one priority"),
    "simulator": (cache(is_simulated), "a text or a setting of the simulated device"),
}


def require(*names: str) -> None:
    """Skips the test if the driver lacks any of them."""
    for name in names:
        is_offered, otherwise = OFFERS[name]
        if not is_offered():
            pytest.skip(f"not offered: {otherwise}")
