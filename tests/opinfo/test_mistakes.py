"""Mistakes in calls of every operator: a valid call first, and then the same with one wrong argument.

Each sample of PyTorch's operator database runs, and runs again with one argument replaced: a tensor by one of other
sizes or another dtype, a number by one that is too large, a name by another. In any case the device must stay usable,
and it must refuse exactly what the CPU refuses, except for the operators in `DIFFERENT`. The replaced arguments are
drawn at random: OPENREG_MISTAKES_SEED draws others.
"""

from __future__ import annotations

import os
import random
import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_unflatten

from tests.opinfo.mistakes import DIFFERENT, calls, chosen, mistaken

SEED = int(os.environ.get("OPENREG_MISTAKES_SEED", "0"))


def refusal(entry: OpInfo, leaves: list[Any], spec: Any, device: str) -> str | None:
    """The type and first line of what a call raises, at once or at the next wait; None if it returns."""
    torch.manual_seed(0)
    placed = [leaf.to(device, copy=True) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    args, kwargs = tree_unflatten(placed, spec)
    try:
        entry(*args, **kwargs)
        torch.accelerator.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return None


@pytest.mark.parametrize("entry", [entry for entry in op_db if chosen(entry.name)], ids=lambda entry: entry.full_name)
def test_the_device_survives_mistakes(entry: OpInfo) -> None:
    drawn = random.Random(f"{SEED} {entry.full_name}")
    different = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for leaves, spec in calls(entry):
            refusal(entry, leaves, spec, "openreg")
            for i, given in mistaken(leaves, drawn):
                there, here = (refusal(entry, given, spec, device) for device in ("cpu", "openreg"))
                if (there is None) != (here is None):
                    different.append((i, given[i], there, here))
    assert (torch.ones(2, device="openreg") + 1).tolist() == [2, 2]
    assert not different or entry.name in DIFFERENT, different
