"""The samples of PyTorch's operator database in other memory orders, which its own tests leave out.

A kernel may write its output in an order that contradicts its strides. Only such inputs reveal that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

from tests.layouts import to_device
from tests.opinfo.compare import Comparison
from tests.opinfo.conftest import QUARTERS
from tests.opinfo.mistakes import DIFFERENT, FLASH_ATTENTION_OF_THE_CPU

SAMPLES = 3  # of each operator
LEFT_OUT = {
    "as_strided_partial_views": "its samples name places in a memory that the copy has not",
    "tensor_split": "PyTorch wants one of its arguments on the CPU",
    "to_sparse": "its result has no order",
    "sparse_mm_reduce": "sparse tensors have dispatch keys of their own, for which this backend registers nothing",
    "sparse_sampled_addmm": "the same",
}


def channels_last(tensor: Tensor) -> Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats.get(tensor.dim(), torch.contiguous_format))


def transposed(tensor: Tensor) -> Tensor:
    return tensor.mT.contiguous().mT if tensor.dim() >= 2 else tensor


def reordered(sample: SampleInput, order: Callable[[Tensor], Tensor], device: str) -> tuple[Any, ...]:
    """The arguments of the sample, as new tensors of this order on the device."""

    def place(leaf: object) -> object:
        if not isinstance(leaf, Tensor) or leaf.layout is not torch.strided:
            return leaf
        there = order(leaf.detach().clone())
        there = to_device(there) if device == "openreg" else there
        return there.requires_grad_(leaf.requires_grad)

    arguments: tuple[Any, ...] = pytree.tree_map(place, (sample.input, sample.args, sample.kwargs))
    return arguments


def outcome(
    op: OpInfo, sample: SampleInput, order: Callable[[Tensor], Tensor], device: str, seed: int = 0
) -> list[Tensor]:
    """The results of the operator, and its gradients."""
    torch.manual_seed(seed)
    x, args, kwargs = reordered(sample, order, device)
    if "device" in kwargs:
        kwargs["device"] = device
    outputs = [leaf for leaf in pytree.tree_leaves(op(x, *args, **kwargs)) if isinstance(leaf, Tensor)]
    inputs = [leaf for leaf in pytree.tree_leaves((x, args)) if isinstance(leaf, Tensor) and leaf.requires_grad]
    wanted = [output for output in outputs if output.requires_grad and output.layout is torch.strided]
    if wanted and inputs:
        loss = torch.stack([(output * output.detach().conj()).real.sum() for output in wanted]).sum()
        outputs += [each for each in torch.autograd.grad(loss, inputs, allow_unused=True) if each is not None]
    return [output.detach().cpu() for output in outputs]


def samples(op: OpInfo, order: Callable[[Tensor], Tensor]) -> Iterator[SampleInput]:
    """The samples of an operator whose strides this order changes."""
    for sample in islice(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd), SAMPLES):
        tensors = [leaf for leaf in pytree.tree_leaves((sample.input, sample.args)) if isinstance(leaf, Tensor)]
        dense = [tensor for tensor in tensors if tensor.layout is torch.strided]
        if any(order(tensor.detach()).stride() != tensor.stride() for tensor in dense):
            yield sample


@pytest.mark.filterwarnings("ignore")  # Some samples call deprecated functions.
@pytest.mark.parametrize("quarter", range(QUARTERS))
@pytest.mark.parametrize("order", [channels_last, transposed])
def test_samples_in_another_order(order: Callable[[Tensor], Tensor], quarter: int) -> None:
    compared, different = 0, {}
    for op in op_db[quarter::QUARTERS]:
        name = op.formatted_name
        refused = op.name == FLASH_ATTENTION_OF_THE_CPU and op.name in DIFFERENT
        if name in LEFT_OUT or refused or torch.float32 not in op.supported_dtypes("cpu"):
            continue
        if not Comparison(op, "openreg", torch.float32).has_values:
            continue
        for sample in samples(op, order):
            try:
                expected, again = (outcome(op, sample, order, "cpu", seed) for seed in (0, 1))
                torch.testing.assert_close(again, expected, equal_nan=True)
            except Exception:  # the CPU refuses it, or draws random numbers
                continue
            compared += 1
            try:
                actual = outcome(op, sample, order, "openreg")
                torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4, equal_nan=True, check_stride=False)
            except Exception as error:
                different[name] = str(error).splitlines()[0]
    assert compared > 25, compared
    assert not different, different
