"""Mistakes in calls of every operator: a good call first, and then the same with one argument wrong.

Each sample of PyTorch's operator database is run, and run again with one argument replaced: a tensor by one of other
sizes or another dtype, a number by one that is too large, a name by another. Whatever comes of it, the device must go
on, and what the CPU refuses must not return, nor the other way round, but for the operators that `DIFFERENT` names.
Which arguments are replaced is drawn: OPENREG_MISTAKES_SEED draws others.
"""

from __future__ import annotations

import os
import random
import re
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_flatten, tree_unflatten

SEED = int(os.environ.get("OPENREG_MISTAKES_SEED", "0"))
MISTAKES = 6  # of each sample
SAMPLES = 3
LARGEST = 20_000  # elements
DTYPES = (torch.float32, torch.int64)
# Their layouts are not of this device, or they return memory that nobody has written.
LEFT_OUT = re.compile(r"sparse|to_sparse|layout|empty|new_empty")
# On the CPU itself these read and write beyond a tensor that is too small: the process may end.
CRASHES_ON_THE_CPU = re.compile(r"batch_norm|lu_unpack|_segment_reduce")
# Where the device refuses what the CPU takes, or takes what the CPU refuses.
DIFFERENT = {
    "addmv": "the CPU's output has the sizes of what is added",
    "nn.functional.dropout": "there are masks for complex numbers here",
    "nn.functional.grid_sample": "numbers without a meaning are refused",
    "grid_sampler_2d": "numbers without a meaning are refused",
    "grid_sampler_3d": "numbers without a meaning are refused",
    "native_dropout_backward": "a mask of other sizes is refused",
    "nn.functional.linear_cross_entropy": "a composite that converts for the CPU alone",
    "nn.functional.max_pool1d": "the CPU has a kernel of its own, and other dtypes",
    "nn.functional.scaled_dot_product_attention": "a probability that is no number is refused",
    "tensor_split": "PyTorch wants the indices on the CPU",
    "ldexp": "the exponent of a bool",
}


def wrong(value: Any) -> Iterator[Any]:
    """What may stand in the place of an argument by mistake."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return
        value = value.detach()
        for dim in range(min(value.dim(), 3)):
            if value.size(dim):
                yield torch.cat([value, value.narrow(dim, 0, 1)], dim)
        if value.dim() and value.numel():
            yield value.flatten()[0]
            yield value.flatten()[:1].expand(value.shape)
        yield value.unsqueeze(0)
        yield value[:0] if value.dim() else value.new_empty(0)
        yield from (value.to(dtype) for dtype in (torch.bool, torch.complex64, torch.int64, torch.float16))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from (100, -100)
    elif isinstance(value, float):
        yield from (float("nan"), 1e300, 1 + 1j)
    elif isinstance(value, str):
        yield "nonsense"


def refusal(entry: OpInfo, leaves: list[Any], spec: Any, device: str) -> str | None:
    """The type of what a call raises, there or at the next wait; None where it returns."""
    torch.manual_seed(0)
    placed = [leaf.to(device, copy=True) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    args, kwargs = tree_unflatten(placed, spec)
    try:
        entry(*args, **kwargs)
        torch.accelerator.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return None


def is_empty(value: Any) -> bool:
    """Of a tensor without elements no loop looks at the dtype, nor at a number: here more calls return."""
    return isinstance(value, torch.Tensor) and value.numel() == 0


def chosen(name: str) -> bool:
    """Whether an operator is asked."""
    return not LEFT_OUT.search(name) and not CRASHES_ON_THE_CPU.search(name)


@pytest.mark.parametrize("entry", [entry for entry in op_db if chosen(entry.name)], ids=lambda entry: entry.full_name)
def test_the_device_survives_mistakes(entry: OpInfo) -> None:
    drawn = random.Random(f"{SEED} {entry.full_name}")
    different = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in (dtype for dtype in DTYPES if dtype in entry.dtypes):
            for sample in islice(entry.sample_inputs(torch.device("cpu"), dtype, requires_grad=False), SAMPLES):
                leaves, spec = tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
                if sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor)) > LARGEST:
                    continue
                refusal(entry, leaves, spec, "openreg")
                mistakes = [(i, value) for i, leaf in enumerate(leaves) for value in wrong(leaf)]
                for i, value in drawn.sample(mistakes, min(MISTAKES, len(mistakes))):
                    given = [*leaves[:i], value, *leaves[i + 1 :]]
                    there, here = (refusal(entry, given, spec, device) for device in ("cpu", "openreg"))
                    if (there is None) != (here is None) and not any(map(is_empty, given)):
                        different.append((i, value, there, here))
    assert (torch.ones(2, device="openreg") + 1).tolist() == [2, 2]
    assert not different or entry.name in DIFFERENT, different
