"""Mistakes in calls of the database's operators, and where the device then differs from the CPU."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import TreeSpec, tree_flatten

MISTAKES = 6  # of each sample
SAMPLES = 3
LARGEST = 20_000  # elements
DTYPES = (torch.float32, torch.int64)
# The device does not have their layouts, or they return uninitialized memory.
LEFT_OUT = re.compile(r"sparse|to_sparse|layout|empty|new_empty")
# On the CPU itself these read and write beyond a tensor that is too small: the process may crash.
CRASHES_ON_THE_CPU = re.compile(r"batch_norm|lu_unpack|_segment_reduce")
# Where the device refuses what the CPU accepts, or accepts what the CPU refuses.
DIFFERENT = {
    "nn.functional.dropout": "there are masks for complex numbers here",
    "grid_sampler_2d": "numbers without a meaning are refused",
    "grid_sampler_3d": "numbers without a meaning are refused",
    "native_dropout_backward": "a mask of other sizes is refused",
    "nn.functional.linear_cross_entropy": "a composite that converts for the CPU alone",
    "nn.functional.max_pool1d": "the CPU has a kernel of its own, and other dtypes",
    "nn.functional.scaled_dot_product_attention": "a probability that is no number is refused",
    "tensor_split": "PyTorch wants the indices on the CPU",
}
# An operator of the CPU, called directly. It takes no generator, and since PyTorch 2.14 it is tagged as random.
FLASH_ATTENTION_OF_THE_CPU = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"
if torch.Tag.nondeterministic_seeded in torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default.tags:
    DIFFERENT[FLASH_ATTENTION_OF_THE_CPU] = "numbers that the device's seed cannot repeat are refused"


def wrong(value: Any) -> Iterator[Any]:
    """Wrong values for an argument."""
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


def chosen(name: str) -> bool:
    """Whether an operator is tested."""
    return not LEFT_OUT.search(name) and not CRASHES_ON_THE_CPU.search(name)


def calls(entry: OpInfo, largest: int = LARGEST) -> Iterator[tuple[list[Any], TreeSpec]]:
    """The arguments of an operator's first samples, flattened, with the spec that restores ``(args, kwargs)``."""
    for dtype in (dtype for dtype in DTYPES if dtype in entry.dtypes):
        for sample in islice(entry.sample_inputs(torch.device("cpu"), dtype, requires_grad=False), SAMPLES):
            leaves, spec = tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
            if sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor)) <= largest:
                yield leaves, spec


def mistaken(leaves: list[Any], drawn: random.Random) -> Iterator[tuple[int, list[Any]]]:
    """Some of the calls with one argument replaced, each with the index of that argument."""
    mistakes = [(i, value) for i, leaf in enumerate(leaves) for value in wrong(leaf)]
    for i, value in drawn.sample(mistakes, min(MISTAKES, len(mistakes))):
        yield i, [*leaves[:i], value, *leaves[i + 1 :]]
