"""The CPU fallback: which operators may use it, and which have used it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch

from torch_openreg import _C


def set_fallback_policy(policy: Literal["all", "listed", "error"], ops: Iterable[str] | None = None) -> None:
    """Sets which operators without a kernel may run on the CPU, for the whole process.

    Args:
        policy: `"all"` (the default): every operator may. `"listed"`: only `ops` may. `"error"`: `ops` may not, or none
            may if it is None.
        ops: names such as `"aten::sub.Tensor"` for one overload, or `"aten::sub"` for all of them.

    Raises:
        ValueError: for an unknown policy, an unknown operator, or `ops` together with `"all"`.
        TypeError: if `ops` is a single name.

    An operator that may not fall back raises `NotImplementedError` with its name when it is called.
    """
    if isinstance(ops, str):
        raise TypeError(f"openreg: ops is a list of names, got the name {ops!r} alone: give [{ops!r}]")
    names = list(ops or [])
    forbids_nothing = policy == "error" and ops is not None and not names
    _C._set_fallback_policy("all" if forbids_nothing else policy, names)


def fallback_stats() -> dict[str, int]:
    """How often each operator has fallen back since the start or the last reset, by full name in alphabetical order."""
    return _C._fallback_stats()


def reset_fallback_stats() -> None:
    """Resets the counts of `fallback_stats`."""
    _C._reset_fallback_stats()


# LITERALINCLUDE START: fallback-mark-python
def forbid_fallback(tensor: torch.Tensor, forbid: bool = True) -> None:
    """Marks a device tensor so that the fallback may not copy it to the CPU, or removes the mark.

    An operator without a kernel then raises `NotImplementedError` for it, instead of moving a large weight over the bus
    on each call. The mark covers views of the tensor. Explicit copies (`cpu()`, `to()`, `tolist()`) stay allowed.
    `detach()`, `.data`, `torch.nn.Parameter` and saving to a file preserve the mark; other copies do not have it.

    Raises:
        RuntimeError: if the tensor is on another device.
    """
    _C._set_forbids_fallback(tensor, forbid)


def is_fallback_forbidden(tensor: torch.Tensor) -> bool:
    """Whether `forbid_fallback` marked the tensor or the tensor that it is a view of. False on other devices."""
    return _C._forbids_fallback(tensor)


# LITERALINCLUDE END: fallback-mark-python
