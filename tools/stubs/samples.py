"""The samples that are run to find which stubs are read: PyTorch's operator database, and calls for what it misses.

A unit is an entry with a dtype in a mode; its samples are created on the CPU and moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

from stubs.calls import CALLS

FORWARD, REFERENCE, OUT, IN_PLACE, BACKWARD, JVP, TWICE = (
    "forward",
    "reference",
    "out",
    "in place",
    "backward",
    "forward-mode",
    "backward twice",
)
DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool, torch.bfloat16, torch.float16, torch.float64)
# Limited, because the samples of an entry read the same stubs again and again; backward takes the longest.
SAMPLES = {FORWARD: 40, REFERENCE: 6, OUT: 8, IN_PLACE: 8, BACKWARD: 24, JVP: 8, TWICE: 4}


@dataclass(frozen=True)
class Unit:
    """An entry with a dtype in a mode, or one of the calls."""

    entry: int
    dtype: torch.dtype | None
    mode: str

    def __str__(self) -> str:
        if self.dtype is None:
            return list(CALLS)[self.entry]
        entry = op_db[self.entry]
        return (
            f"{entry.name}{'.' if entry.variant_test_name else ''}{entry.variant_test_name}, {self.dtype}, {self.mode}"
        )

    def samples(self) -> Iterator[Callable[[str], object]]:
        """Functions that run a sample on a device. Some raise errors, because PyTorch rejects the call."""
        if self.dtype is None:
            yield list(CALLS.values())[self.entry]
            return
        entry = op_db[self.entry]
        gradients = self.mode in (BACKWARD, JVP, TWICE)
        make = entry.reference_inputs_func if self.mode == REFERENCE else entry.sample_inputs_func
        samples = iter(make(entry, "cpu", self.dtype, gradients))
        for _ in range(SAMPLES[self.mode]):
            try:
                sample = next(samples)
            except StopIteration:
                return
            yield partial(self._run, entry, sample)

    def _run(self, entry: OpInfo, original: SampleInput, device: str) -> object:
        sample = _moved(original, device)
        if self.mode == IN_PLACE:
            return entry.get_inplace()(sample.input.clone(), *sample.args, **sample.kwargs)
        if self.mode == JVP:
            return _forward_mode(entry, sample)
        result = entry(sample.input, *sample.args, **sample.kwargs)
        if self.mode == OUT:
            single = isinstance(result, torch.Tensor)
            out = torch.empty_like(result) if single else tuple(map(torch.empty_like, result))
            return entry(sample.input, *sample.args, **sample.kwargs, out=out)
        if self.mode not in (BACKWARD, TWICE):
            return result
        if sample.output_process_fn_grad is not None:
            result = sample.output_process_fn_grad(result)
        gradients = _gradients(_differentiable(result), _differentiable(sample), again=self.mode == TWICE)
        return _gradients(gradients, _differentiable(sample), again=False) if self.mode == TWICE else gradients


def units() -> Iterator[Unit]:
    """All units, the calls first."""
    for i in range(len(CALLS)):
        yield Unit(i, None, FORWARD)
    for i, entry in enumerate(op_db):
        dtypes, differentiable = entry.supported_dtypes("cpu"), entry.supported_backward_dtypes("cpu")
        for dtype in DTYPES:
            if dtype in dtypes:
                yield Unit(i, dtype, FORWARD)
                if entry.reference_inputs_func is not None:
                    yield Unit(i, dtype, REFERENCE)
                if entry.supports_out:
                    yield Unit(i, dtype, OUT)
                if entry.get_inplace() is not None:
                    yield Unit(i, dtype, IN_PLACE)
            if dtype in differentiable and entry.supports_autograd and dtype in (DTYPES[0], DTYPES[1], DTYPES[4]):
                yield Unit(i, dtype, BACKWARD)
                if entry.supports_forward_ad:
                    yield Unit(i, dtype, JVP)
                if entry.supports_gradgrad:
                    yield Unit(i, dtype, TWICE)


def _moved(sample: SampleInput, device: str) -> SampleInput:
    """The sample on a device, with new leaves for its tensors that require gradients."""
    known: dict[int, torch.Tensor] = {}

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in known:
                known[id(value)] = value.detach().to(device).requires_grad_(value.requires_grad)
            return known[id(value)]
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device(device)
        return value

    result = SampleInput(tree_map(move, sample.input), args=tree_map(move, sample.args), name=sample.name)
    result.kwargs = tree_map(move, sample.kwargs)
    result.output_process_fn_grad = sample.output_process_fn_grad
    return result


def _differentiable(tree: Any) -> list[torch.Tensor]:
    if isinstance(tree, SampleInput):
        tree = (tree.input, tree.args, tree.kwargs)
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


def _gradients(outputs: list[torch.Tensor], inputs: list[torch.Tensor], *, again: bool) -> list[torch.Tensor]:
    weights = [torch.ones_like(output) for output in outputs]
    found = torch.autograd.grad(outputs, inputs, weights, create_graph=again, allow_unused=True)
    return _differentiable(found) if again else [gradient for gradient in found if gradient is not None]


def _forward_mode(entry: OpInfo, sample: SampleInput) -> object:
    import torch.autograd.forward_ad as forward_ad

    def dual(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.requires_grad:
            return forward_ad.make_dual(value.detach(), torch.ones_like(value))
        return value

    with forward_ad.dual_level():
        first, args, kwargs = tree_map(dual, (sample.input, sample.args, sample.kwargs))
        return entry(first, *args, **kwargs)


def taken(sample: Callable[[str], object], device: str) -> bool:
    """Runs a sample; returns whether PyTorch accepted it."""
    try:
        sample(device)
    except Exception:
        return False
    return True
