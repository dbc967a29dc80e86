"""Where the kernel of an operator comes from."""

from __future__ import annotations

import re
from typing import Literal

import torch

from torch_openreg import _C
from torch_openreg.openreg.properties import get_device_properties


# LITERALINCLUDE START: kernel-source-python
def kernel_source(
    operator: str, dtype: torch.dtype | None = None
) -> Literal["native", "host", "backend", "composite", "fallback", "none"]:
    """Where an operator runs for a tensor of the device.

    Args:
        operator: the full name of one overload, such as `"aten::add.Tensor"`.
        dtype: the dtype of the operands; by default, one for which the operator has a native kernel, if there is one.

    Returns:
        * `"native"`: a kernel in the device's own language.
        * `"host"`: host code that runs as a kernel on the device (csrc/kernels).
        * `"backend"`: code of the backend that computes nothing: it allocates, copies, checks or calls other operators.
        * `"composite"`: a kernel of PyTorch that calls other operators, each with a source of its own.
        * `"fallback"`: on the CPU, with copies in both directions.
        * `"none"`: nowhere; a call raises `NotImplementedError`.

    Raises:
        RuntimeError: if no operator has this name.
        TypeError: if `dtype` is no dtype.
    """
    registered = [row.split(": ", 1)[1] for row in _rows(operator, "_dispatch_dump") if row.startswith("PrivateUse1")]
    native = _native(operator, dtype)
    if native and (dtype is None or dtype in native):
        return "native"
    # The active registration comes first. A native one passes other dtypes to the registration that it overrides.
    for row in registered:
        if not _NATIVE.search(row):
            return "host" if _HOST.search(row) else "fallback" if _FALLBACK.search(row) else "backend"
    if native:
        # Other dtypes go to PyTorch's composite kernel, which calls the out overload, or to the fallback.
        return "fallback" if operator.endswith("out") else "composite"  # NOT PROVEN: needs a build without host kernels
    return _computed(operator)


def _computed(operator: str) -> Literal["composite", "fallback", "none"]:
    rows = dict(row.split(": ", 1) for row in _rows(operator, "_dispatch_dump_table"))
    found = rows.get("PrivateUse1", "")
    if not _FALLBACK.search(found):
        return "composite" if found else "none"
    return "fallback" if torch._C._dispatch_has_computed_kernel_for_dispatch_key(operator, "CPU") else "none"


# LITERALINCLUDE END: kernel-source-python

_NATIVE = re.compile(r"csrc/native/")
_HOST = re.compile(r"csrc/kernels/|/structured_\d+\.cpp")
_FALLBACK = re.compile(r"csrc/aten/fallback/|csrc/aten/staged/")


def _native(operator: str, dtype: torch.dtype | None) -> list[torch.dtype]:
    """The dtypes for which an operator has a kernel in the device's own language."""
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise TypeError(f"openreg: dtype is a torch.dtype, such as torch.float32, got {dtype!r}")
    return [one for one in _C._native_dtypes(operator) if one != torch.float64 or _has_fp64()]


def _rows(operator: str, dump: str) -> list[str]:
    if "::" not in operator or not torch._C._dispatch_has_kernel(operator):
        raise RuntimeError(f"openreg: no operator is called {operator!r}: give its full name, such as 'aten::add.out'")
    rows: list[str] = getattr(torch._C, dump)(operator).splitlines()
    return rows


def _has_fp64() -> bool:
    return get_device_properties().has_fp64
