"""Runs a sample of PyTorch's operator database on the device and on the CPU, and compares.

Samples that the CPU rejects are skipped. If an operator draws random numbers or returns uninitialized memory, only
shapes, dtypes and devices are compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from math import prod
from typing import Any

import torch
from torch.testing import assert_close
from torch.testing._comparison import default_tolerances
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_device_type import precisionOverride, toleranceOverride
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

__all__ = ["MODES", "Comparison", "OpInfo", "dtypes"]

UNWRITTEN = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
# PyTorch's CPU kernel for 16-bit dtypes reads beyond its rows, and gives other numbers each time.
MISJUDGED = ("grid_sampler_2d", "grid_sampler_3d", "nn.functional.grid_sample")
# Of a single number they are constant: the gradient is zero, and what is computed is rounding error, amplified hundreds
# of times.
NORMS = ("nn.functional.layer_norm", "native_layer_norm")
# Its argument is a tensor that must be on the CPU.
READ_BY_THE_HOST = ("tensor_split",)
# Their samples do not name a device.
FACTORIES = ("arange", "linspace", "logspace")
HALVES = (torch.float16, torch.bfloat16)
MODES = ("forward", "noncontiguous", "out", "in_place", "backward")


def dtypes(entry: OpInfo, mode: str) -> set[torch.dtype]:
    """The dtypes that an entry supports on the CPU in this mode; none if it does not support the mode."""
    possible = {"out": entry.supports_out, "in_place": entry.get_inplace(), "backward": entry.supports_autograd}
    if not possible.get(mode, True):
        return set()
    return set(entry.supported_backward_dtypes("cpu") if mode == "backward" else entry.supported_dtypes("cpu"))


def tolerance(entry: OpInfo, dtype: torch.dtype) -> tuple[float, float]:
    """The relative and absolute tolerance: the widest that the database itself gives an operator."""
    # In 16 bits, a sum in another order differs by rounding errors of the summands' size, not of the result's.
    rtol = atol = 8 * torch.finfo(dtype).eps if dtype in HALVES else 0.0
    for decorator in (one for info in entry.decorators for one in getattr(info, "decorators", ())):
        if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
            rtol, atol = max(rtol, decorator.d[dtype].rtol), max(atol, decorator.d[dtype].atol)
        elif isinstance(decorator, precisionOverride) and dtype in decorator.d:
            atol = max(atol, decorator.d[dtype])
    return rtol, atol


class Comparison:
    """One entry with one dtype. ``compared`` counts samples, so that nothing passes without a comparison."""

    def __init__(self, entry: OpInfo, device: str, dtype: torch.dtype) -> None:
        self.entry, self.device, self.dtype = entry, device, dtype
        self.compared = 0
        code = getattr(entry.op, "__code__", None)
        # Some entries wrap a random operator so that the generator's state does not show it.
        is_wrapped = code is not None and "wrapper_set_seed" in code.co_names
        self.has_values = entry.name not in UNWRITTEN and not is_wrapped

    def run(self, mode: str) -> None:
        """Compares all samples. Throws: what the device throws, or `AssertionError`."""
        torch.manual_seed(0)  # the samples are the same in each run
        made: Iterable[SampleInput] = self.entry.sample_inputs_func(self.entry, "cpu", self.dtype, mode == "backward")
        call = getattr(self, f"_{mode}", self._forward)
        for sample in made:
            if mode == "backward" and self.entry.name in NORMS and prod(sample.args[0]) == 1:
                continue
            before = torch.get_rng_state()
            try:
                given = sample.noncontiguous() if mode == "noncontiguous" else sample
                host_sample = self._moved(given, "cpu")
                expected = call(host_sample)
            except Exception:
                continue
            device_sample = self._moved(given, self.device)
            exact = cache(partial(self._exactly, call, given))
            has_values = self.has_values and torch.equal(before, torch.get_rng_state())
            try:
                self._compare(call(device_sample), expected, exact if has_values else None)
                if has_values:
                    self._compare_arguments(device_sample, host_sample)
            except Exception as error:
                error.add_note(f"The sample: {device_sample.summary()}")
                raise
            self.compared += 1

    def _moved(self, sample: SampleInput, device: str, in_double: bool = False) -> SampleInput:
        """The sample on a device, as leaf tensors; a tensor that occurs twice is copied once."""
        known: dict[int, Any] = {}

        def move(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                if id(value) not in known:
                    copy = _copy(value, device)
                    known[id(value)] = _in_double(copy) if in_double else copy
                return known[id(value)]
            names_cpu = isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu")
            return torch.device(device) if names_cpu else value

        arguments = sample.args if self.entry.name in READ_BY_THE_HOST else tree_map(move, sample.args)
        moved = SampleInput(tree_map(move, sample.input), args=arguments)
        moved.kwargs = tree_map(move, sample.kwargs)
        if self.entry.name in FACTORIES:
            moved.kwargs = {**moved.kwargs, "device": device}
        moved.output_process_fn_grad = sample.output_process_fn_grad
        return moved

    def _exactly(self, call: Callable[[SampleInput], Any], sample: SampleInput) -> list[Any]:
        """The leaves of the CPU's result in double precision; none if the CPU rejects that."""
        try:
            return tree_leaves(call(self._moved(sample, "cpu", in_double=True)))
        except Exception:
            return []

    def _forward(self, sample: SampleInput) -> Any:
        return self.entry(sample.input, *sample.args, **sample.kwargs)

    def _in_place(self, sample: SampleInput) -> Any:
        target = sample.input.clone()
        result = self.entry.get_inplace()(target, *sample.args, **sample.kwargs)
        assert result is target, "the variant in place returns another tensor"
        return result

    def _out(self, sample: SampleInput) -> Any:
        likes = self._forward(sample)
        single = isinstance(likes, torch.Tensor)
        targets = [torch.empty_like(like).fill_(1) for like in ([likes] if single else likes)]
        addresses = [target.data_ptr() for target in targets]
        out = targets[0] if single else tuple(targets)
        self.entry(sample.input, *sample.args, **sample.kwargs, out=out)
        assert [target.data_ptr() for target in targets] == addresses, "out= was written somewhere else"
        return targets

    def _backward(self, sample: SampleInput) -> Any:
        output = self._forward(sample)
        if sample.output_process_fn_grad is not None:
            output = sample.output_process_fn_grad(output)
        outputs, inputs = _differentiable(output), _differentiable((sample.input, sample.args, sample.kwargs))
        if not outputs or not inputs:
            return ()
        # Different weights for each element, and the same on both devices: ones would hide a permuted gradient.
        generator = torch.Generator().manual_seed(0)
        weights = [_weights(one, generator) for one in outputs]
        return torch.autograd.grad(outputs, inputs, weights, allow_unused=True)

    def _compare(self, actual: Any, expected: Any, exact: Callable[[], list[Any]] | None) -> None:
        """Compares the structure and, unless ``exact`` is None, the values; it gives the leaves in double precision."""
        actual_leaves, actual_form = tree_flatten(actual)
        expected_leaves, expected_form = tree_flatten(expected)
        assert str(actual_form) == str(expected_form), "the result has another structure"
        for index, (one, other) in enumerate(zip(actual_leaves, expected_leaves, strict=True)):
            if isinstance(other, torch.Tensor):
                assert one.device.type == self.device, f"a result is on {one.device}"
                given, wanted = (tuple(one.shape), one.dtype), (tuple(other.shape), other.dtype)
                assert given == wanted, f"a result has shape and dtype {given}, on the CPU {wanted}"
            if exact is not None and isinstance(other, torch.Tensor | float | complex):
                rtol, atol = self._tolerances(one, other)
                try:
                    assert_close(one, other, check_device=False, equal_nan=True, rtol=rtol, atol=atol)
                except AssertionError:
                    leaves = exact() if self.dtype == torch.float32 else []
                    if index >= len(leaves) or not _is_as_precise(one, other, leaves[index]):
                        raise
            elif exact is not None:
                assert one == other, f"the result is {one!r}, on the CPU {other!r}"

    def _compare_arguments(self, actual: SampleInput, expected: SampleInput) -> None:
        """Compares what an operator has made of its arguments, such as running statistics."""
        for one, other in zip(_tensors(actual), _tensors(expected), strict=True):
            rtol, atol = self._tolerances(one, other)
            wrong = "an argument is changed in another way than on the CPU:\n{}".format
            assert_close(
                one.detach(), other.detach(), check_device=False, equal_nan=True, rtol=rtol, atol=atol, msg=wrong
            )

    def _tolerances(self, one: Any, other: Any) -> tuple[float, float]:
        """The relative and absolute tolerance of a pair; indices and counts are exact, whatever they come from."""
        if not isinstance(other, torch.Tensor):
            usual = default_tolerances(torch.float64)
        elif other.is_floating_point() or other.is_complex():
            usual = default_tolerances(one, other)
        else:
            return 0.0, 0.0
        rtol, atol = map(max, usual, tolerance(self.entry, self.dtype))
        return rtol, atol


def _tensors(sample: SampleInput) -> list[torch.Tensor]:
    leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _copy(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A copy on the device, with the same strides and offset in a copy of the whole storage."""
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        copy = tensor.detach().to(device, copy=True)
    else:
        held = tensor.untyped_storage()
        flat = torch.empty(0, dtype=torch.uint8).set_(held).to(device, copy=True).untyped_storage()
        copy = torch.empty(0, dtype=tensor.dtype, device=device)
        copy = copy.set_(flat, tensor.storage_offset(), tensor.size(), tensor.stride())
    return copy.requires_grad_(tensor.requires_grad)


def _in_double(tensor: torch.Tensor) -> torch.Tensor:
    """A leaf tensor of twice the precision, where there is one."""
    dtype = {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(tensor.dtype, tensor.dtype)
    return tensor.detach().to(dtype).requires_grad_(tensor.requires_grad)


def _weights(output: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random weights for a gradient: the same numbers for single and double precision."""
    dtype = {torch.float64: torch.float32, torch.complex128: torch.complex64}.get(output.dtype, output.dtype)
    return torch.randn(output.shape, dtype=dtype, generator=generator).to(output.device, output.dtype)


def _is_as_precise(actual: Any, expected: Any, exact: Any) -> bool:
    """Whether no element is further from the result in double precision than the CPU's worst one.

    A device may add in another order than the CPU. Where terms cancel, results then differ by more than the usual
    tolerance, and neither is wrong. PyTorch's own comparison of a device with the CPU (test_ops.py, test_compare_cpu)
    allows a relative difference of 1e-3, which limits this one too.
    """
    if not isinstance(expected, torch.Tensor):
        return False
    wide = torch.complex128 if expected.is_complex() else torch.float64
    one, other, best = (value.detach().cpu().to(wide) for value in (actual, expected, exact))
    worst = (other - best).abs().max()
    close: torch.Tensor = (one - best).abs() <= (best.abs() * 1e-3).clamp(max=worst)
    return bool((close | (one == other) | (one.isnan() & other.isnan())).all())


def _differentiable(tree: Any) -> list[torch.Tensor]:
    found = {id(leaf): leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.requires_grad}
    return list(found.values())
