"""Runs samples of PyTorch's operator database on the device and on the CPU, and compares the results.

A sample that the CPU refuses does not run on the device. Where an operator draws random numbers, or returns
uninitialized memory, only shapes, dtypes and layouts can be compared; `test_random.py` tests the distributions.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import LinearCrossEntropyOptions
from torch.testing import assert_close
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import precisionOverride, toleranceOverride
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

Run = Callable[[SampleInput], Any]


@dataclass
class Noted:
    """Whether the values of a result can be compared."""

    values: bool


ON_CPU = "on the CPU"
FACTORIES = ("arange", "linspace", "logspace")  # their samples leave the device out
# The CPU's loop for 16 bits reads beyond its rows, and gives other numbers each time: the CPU computes in float32.
IN_FLOAT = ("grid_sampler_2d", "grid_sampler_3d", "nn.functional.grid_sample")
# How `linear_cross_entropy` cuts a batch depends on the device before PyTorch 2.14, and then on the policy alone.
CUTS_BY_POLICY = torch.torch_version.TorchVersion(torch.__version__) >= "2.14"
UNWRITTEN = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


def cpu_copy(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor on the CPU, with its strides, offset, lazy conjugation and the rest of its storage."""
    if tensor.layout is not torch.strided:
        return tensor.detach().cpu().requires_grad_(tensor.requires_grad)
    storage = tensor.untyped_storage()
    fresh = storage.clone() if tensor.is_cpu else storage.cpu()  # cpu() does not copy a storage of the CPU
    copy = torch.empty(0, dtype=tensor.dtype).set_(fresh, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj():
        copy = copy.conj()
    if tensor.is_neg():
        copy = torch._neg_view(copy)
    return copy.requires_grad_(tensor.requires_grad)


def mapped(sample: SampleInput, function: Callable[[Any], Any], name: str = "") -> SampleInput:
    """A sample with mapped values. A tensor that occurs several times stays one tensor."""
    known: dict[int, Any] = {}

    def once(value: Any) -> Any:
        return known.setdefault(id(value), function(value)) if isinstance(value, torch.Tensor) else function(value)

    result = SampleInput(tree_map(once, sample.input), args=tree_map(once, sample.args), name=name)
    result.kwargs = tree_map(once, sample.kwargs)
    result.output_process_fn_grad = sample.output_process_fn_grad
    return result


def in_float(value: Any) -> Any:
    """A tensor of 16 bits in float32; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.float16, torch.bfloat16):
        return value
    return value.detach().float().requires_grad_(value.requires_grad)


def chosen_options(value: Any, dtype: torch.dtype) -> Any:
    """The options of `linear_cross_entropy` as PyTorch chooses them for a device. For the CPU it chooses others."""
    if not isinstance(value, LinearCrossEntropyOptions):
        return value
    chosen: dict[str, Any] = {}
    if value.acc_policy == "auto":
        chosen |= {"acc_policy": "compact", "acc_dtype": value.acc_dtype or dtype}
    if value.chunking_method == "auto" and value.batch_chunk_size is None and not CUTS_BY_POLICY:
        chosen["chunking_method"] = "aspect_ratio:2"
    return dataclasses.replace(value, **chosen)


def on_cpu(sample: SampleInput) -> SampleInput:
    """A sample of the device, moved to the CPU."""

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return cpu_copy(value)
        if isinstance(value, torch.device) or (isinstance(value, str) and value.startswith("openreg")):
            return torch.device("cpu")
        return value

    return mapped(sample, move, ON_CPU)


def with_leaves(sample: SampleInput) -> SampleInput:
    """Detaches views: some samples have views of tensors that require gradients, which would get the gradients."""

    def cut(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().requires_grad_(value.requires_grad)

    return mapped(sample, cut)


def tolerance(op: OpInfo, dtype: torch.dtype) -> tuple[float, float]:
    """The widest relative and absolute tolerances that the database gives an operator; 0 if it gives none."""
    rtol, atol = 0.0, 0.0
    for info in op.decorators:
        for decorator in getattr(info, "decorators", ()):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                rtol, atol = max(rtol, decorator.d[dtype].rtol), max(atol, decorator.d[dtype].atol)
            elif isinstance(decorator, precisionOverride) and dtype in decorator.d:
                atol = max(atol, decorator.d[dtype])
    return rtol, atol


class Comparison:
    """One entry of the database with one dtype, on one device."""

    def __init__(self, op: OpInfo, device: str, dtype: torch.dtype) -> None:
        self.op = op
        self.device = device
        self.dtype = dtype
        self.tolerance = tolerance(op, dtype)
        code = getattr(op.op, "__code__", None)
        # Some entries wrap a random operator so that it leaves no trace in the generator.
        is_wrapped = code is not None and "wrapper_set_seed" in code.co_names
        self.is_widened = op.name in IN_FLOAT and dtype.itemsize == 2
        self.compared = 0
        self.has_values = op.name not in UNWRITTEN and not is_wrapped

    def forward(self) -> None:
        """The samples as they come."""
        self._run_all(self._samples(), self._call)

    def reference(self) -> None:
        """The wider samples of many entries: empty, without dimensions, broadcast, extremal."""
        self._run_all(self.op.reference_inputs_func(self.op, self.device, self.dtype, False), self._call)

    def noncontiguous(self) -> None:
        """The samples with every tensor spread over more memory than it needs."""
        self._run_all((sample.noncontiguous() for sample in self._samples()), self._call)

    def in_place(self) -> None:
        """The variant that overwrites its input, on a copy of it."""
        variant = self.op.get_inplace()

        def call(sample: SampleInput) -> Any:
            target = sample.input.clone()
            result = variant(target, *sample.args, **sample.kwargs)
            assert result is target
            return result

        self._run_all(self._samples(), call)

    def out(self) -> None:
        """`out=` with tensors of the right shape, which must be written where they are, and with empty ones."""
        for call in (self._call_out, partial(self._call_out, resized=True)):
            self._run_all(self._samples(), call)

    def backward(self) -> None:
        """The gradients of all inputs that require them."""
        for sample in map(with_leaves, self._samples(requires_grad=True)):
            host = self._host(sample)
            try:
                with self._noting_random_numbers() as noted:
                    expected_outputs = self._differentiable(host)
                weights = self._rounded([torch.randn_like(output) for output in expected_outputs])
                expected = self._rounded(self._gradients(host, expected_outputs, weights))
            except Exception:
                continue
            with _naming(sample):
                outputs = self._differentiable(sample)
                assert len(outputs) == len(expected_outputs)
                actual = self._gradients(sample, outputs, weights)
                self._compare(sample, actual, expected, values=noted.values)

    def _samples(self, *, requires_grad: bool = False) -> Iterable[SampleInput]:
        # As from `sample_inputs`, without its record of each test's current sample, which takes longer than operators.
        samples: Iterable[SampleInput] = self.op.sample_inputs_func(self.op, self.device, self.dtype, requires_grad)
        return samples

    def _call(self, sample: SampleInput) -> Any:
        kwargs = sample.kwargs
        if self.op.name in FACTORIES and sample.name != ON_CPU:
            kwargs = {**kwargs, "device": self.device}
        return self.op(sample.input, *sample.args, **kwargs)

    def _call_out(self, sample: SampleInput, *, resized: bool = False) -> Any:
        likes = self._call(sample)
        single = isinstance(likes, torch.Tensor)
        targets = [torch.empty_like(like).fill_(1) for like in ([likes] if single else likes)]
        if resized:
            targets = [target.new_empty(0) for target in targets]
        addresses = [target.data_ptr() for target in targets]
        out = targets[0] if single else tuple(targets)
        result = self.op(sample.input, *sample.args, **sample.kwargs, out=out)
        for returned, target, address in zip([result] if single else result, targets, addresses, strict=True):
            assert returned is target
            assert resized or target.data_ptr() == address, "out= was written somewhere else"
        return result

    def _host(self, sample: SampleInput) -> SampleInput:
        host = mapped(on_cpu(sample), partial(chosen_options, dtype=self.dtype), ON_CPU)
        return mapped(host, in_float, ON_CPU) if self.is_widened else host

    def _rounded(self, results: Any) -> Any:
        """Converts results that were computed in float32 to the dtype of the unit."""
        return tree_map(lambda result: result.to(self.dtype), results) if self.is_widened else results

    def _run_all(self, samples: Iterable[SampleInput], run: Run) -> None:
        for sample in samples:
            host = self._host(sample)
            try:
                with self._noting_random_numbers() as noted:
                    expected = self._rounded(run(host))
            except Exception:
                continue
            with _naming(sample):
                actual = run(sample)
                if sample.output_process_fn_grad is not None and noted.values:
                    expected, actual = sample.output_process_fn_grad(expected), sample.output_process_fn_grad(actual)
                self._compare(sample, actual, expected, values=noted.values)

    @contextlib.contextmanager
    def _noting_random_numbers(self) -> Iterator[Noted]:
        """Notes whether the results of the block have values that can be compared."""
        noted = Noted(self.has_values)
        before = torch.get_rng_state()
        yield noted
        noted.values &= torch.equal(before, torch.get_rng_state())

    def _differentiable(self, sample: SampleInput) -> list[torch.Tensor]:
        result = self._call(sample)
        if sample.output_process_fn_grad is not None:
            result = sample.output_process_fn_grad(result)
        return list(_requiring_gradients(result))

    def _gradients(self, sample: SampleInput, outputs: list[torch.Tensor], weights: list[torch.Tensor]) -> Any:
        inputs = {id(leaf): leaf for leaf in _requiring_gradients((sample.input, sample.args, sample.kwargs))}
        weights = [weight.to(output) for weight, output in zip(weights, outputs, strict=True)]
        return torch.autograd.grad(outputs, list(inputs.values()), weights, allow_unused=True) if outputs else ()

    def _compare(self, sample: SampleInput, actual: Any, expected: Any, *, values: bool) -> None:
        self.compared += 1
        actual_leaves, actual_form = tree_flatten(actual)
        expected_leaves, expected_form = tree_flatten(expected)
        assert str(actual_form) == str(expected_form)
        device = self._device_of_result(sample)
        for one, other in zip(actual_leaves, expected_leaves, strict=True):
            if isinstance(other, torch.Tensor):
                assert one.device.type == device
                assert _form(one) == _form(other)
            if values and isinstance(other, torch.Tensor | float | complex):
                usual = default_tolerances(*(one, other) if isinstance(other, torch.Tensor) else (torch.float64,))
                rtol, atol = map(max, usual, self.tolerance)
                assert_close(one, other, check_device=False, equal_nan=True, rtol=rtol, atol=atol)
            elif values:
                assert one == other

    def _device_of_result(self, sample: SampleInput) -> str:
        """The device type that the result must have: that of the tensors, or the argument of a factory."""
        if self.op.name in FACTORIES:
            return "openreg"
        told = sample.kwargs.get("device")
        leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
        devices = [torch.device(told)] if told else [leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return "openreg" if any(device.type == "openreg" for device in devices) else "cpu"


@contextlib.contextmanager
def _naming(sample: SampleInput) -> Iterator[None]:
    """Adds the sample to an error as a note."""
    try:
        yield
    except Exception as error:
        error.add_note(f"The sample: {sample.summary()}")
        raise


def _requiring_gradients(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.requires_grad)


def _form(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype, tensor.layout
