"""A check for CI: a model may fall back only for the operators in a list, and the list may only shrink."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from dispatcher_tools_slow_model import Mixer, training_step  # type: ignore[import-not-found]  # beside this script


# LITERALINCLUDE START: dispatcher-tools-ci
@contextmanager
def falls_back_only(*allowed: str) -> Iterator[None]:
    """Raises if an operator that is not allowed to falls back in the block, or if an allowed one does not.

    Requires: nothing else in this process uses the device meanwhile.
    """
    torch.openreg.reset_fallback_stats()
    yield
    calls = torch.openreg.fallback_stats()
    if surprises := [f"{name} ({calls[name]} times)" for name in calls if name not in allowed]:
        raise AssertionError(f"fell back to the CPU: {', '.join(surprises)}")
    if stale := sorted(set(allowed) - set(calls)):
        raise AssertionError(f"no longer falls back, so take it off the list: {', '.join(stale)}")


# LITERALINCLUDE END: dispatcher-tools-ci


def plain_model() -> torch.nn.Module:
    """A model whose operators all have a kernel."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(160, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))


def check(model: torch.nn.Module, allowed: Collection[str] = ()) -> None:
    """Does what a test would do, and prints the outcome."""
    model = model.to("openreg")
    try:
        with falls_back_only(*allowed):
            training_step(model)
        print("passed")
    except AssertionError as error:
        print(f"failed: {error}")


if __name__ == "__main__":
    known = ("aten::_cdist_backward", "aten::_cdist_forward", "aten::_fft_r2c", "aten::col2im", "aten::im2col")
    check(plain_model())
    check(Mixer())
    check(Mixer(), known)
    check(Mixer(), (*known, "aten::angle"))
