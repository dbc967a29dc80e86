"""Operators with a meta function of the backend's own: compared with the CPU, queued, and never falling back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils import _pytree as pytree

from tests.offers import DEVICES, LAST_DEVICE
from tests.runtime.busy import assert_queued

pytestmark = [
    pytest.mark.usefixtures("nothing_falls_back"),
    pytest.mark.skipif(
        "aten::index_select" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
        reason="this build has no kernels",
    ),
]
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def same(call: Callable[..., object], *tensors: Tensor, device: str = "openreg:0") -> None:
    """Checks that the call gives the values, dtypes and strides of the CPU."""
    expected = call(*tensors)
    actual = call(*(tensor.to(device) for tensor in tensors))
    torch.testing.assert_close(pytree.tree_map(Tensor.cpu, actual), expected, check_stride=True)
    assert {str(leaf.device) for leaf in pytree.tree_leaves(actual)} == {device}


def test_mode_with_outputs() -> None:
    votes = torch.tensor([[3.0, 1.0, 3.0], [2.0, 5.0, 5.0]])
    out = (torch.empty(0, device="openreg"), torch.empty(0, dtype=torch.int64, device="openreg"))
    torch.mode(votes.to("openreg"), 1, out=out)
    assert [one.tolist() for one in out] == [one.tolist() for one in torch.mode(votes, 1)]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.int64, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_index_select(dtype: torch.dtype, device: str) -> None:
    x = torch.arange(24).view(2, 3, 4).to(dtype)
    indices = [torch.tensor(index) for index in ([1, 0, 1], [1], 0)]
    for index in (*indices, indices[0].int(), indices[0][:0]):
        same(lambda x, index: x.index_select(1, index), x, index, device=device)
        same(lambda x, index: x.mT[..., ::2].index_select(-1, index), x, index, device=device)
        same(lambda x, index: torch.index_select(x, 0, index, out=x.new_empty(0)), x, index, device=device)
    same(lambda x, index: x[0, 0, 0].index_select(0, index), x, torch.tensor([0]), device=device)
    same(lambda x, index: x[:0].index_select(2, index), x, torch.tensor([3, 3]), device=device)


def test_an_index_is_checked_like_the_cpus() -> None:
    for index, dim in (([3], 0), ([-1], 0), ([0], 2), ([0.0], 0)):
        messages = []
        for device in ("cpu", "openreg"):
            with pytest.raises((IndexError, RuntimeError), match=r"[Ii]ndex|range") as raised:
                torch.ones(2, 2, device=device).index_select(dim, torch.tensor(index, device=device))
            messages.append((type(raised.value), str(raised.value)))
        assert messages[0] == messages[1]
    x = torch.ones(2, 2, device="openreg")
    with pytest.raises(RuntimeError, match="index is on cpu, different from other tensors on openreg:0"):
        x.index_select(0, torch.tensor([0]))
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.index_select(x, 0, torch.tensor([0, 1], device="openreg"), out=x)
    for size in (x.shape, (7, 7)):  # also where it would be resized
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers"):
            torch.index_select(x, 0, torch.tensor([0, 1], device="openreg"), out=x.new_zeros(()).expand(size))
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("padding_idx", [None, 2])
@pytest.mark.parametrize("scale", [False, True], ids=["plain", "by frequency"])
def test_embedding(padding_idx: int | None, scale: bool) -> None:
    def gradient(weight: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        weight = weight.clone().requires_grad_()
        output = functional.embedding(words, weight, padding_idx=padding_idx, scale_grad_by_freq=scale)
        output.backward(torch.arange(1.0, output.numel() + 1).view_as(output).to(output.device))
        assert weight.grad is not None
        return output.detach(), weight.grad

    for words in ([[2, 1], [1, 0]], [3], []):
        same(gradient, torch.randn(4, 3), torch.tensor(words).long())


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
def test_deviations(name: str, dtype: torch.dtype) -> None:
    call = getattr(torch, name)
    x = torch.randn(3, 4, 5).to(dtype)
    for options in ({}, {"dim": 1}, {"dim": (0, -1), "keepdim": True}, {"dim": 2, "correction": 0}, {"correction": 2}):
        same(lambda x, options=options: call(x, **options), x)
        same(lambda x, options=options: call(x.mT[::2], **options), x)


def test_a_deviation_has_a_gradient() -> None:
    def gradient(x: Tensor) -> Tensor | None:
        x = x.clone().requires_grad_()
        x.std(1).sum().backward()
        return x.grad

    same(gradient, torch.randn(3, 4))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.uint8, torch.bool], ids=str)
def test_one_number_of_a_whole_tensor(dtype: torch.dtype) -> None:
    x = torch.tensor([[3, 1, 2], [1, 2, 1]]).to(dtype)
    for call in (torch.max, torch.min, torch.prod):
        for view in (lambda x: x, lambda x: x.mT, lambda x: x[:, ::2], lambda x: x[1, 1]):
            same(lambda x, call=call, view=view: call(view(x)), x)
    same(lambda x: x[:0].prod(), x)
    same(lambda x: x.prod(dtype=torch.float64), x)
    if dtype.is_floating_point:
        same(lambda x: torch.stack([x.max(), x.min(), x.prod()]).isnan(), torch.tensor([1.0, float("nan")]).to(dtype))
    for device in ("cpu", "openreg"):
        with pytest.raises(RuntimeError, match=r"max\(\): Expected reduction dim to be specified"):
            x[:0].to(device).max()


@pytest.mark.needs("queue")
def test_they_are_queued() -> None:
    x = torch.randn(4, 4, device="openreg")
    for call in (lambda: x.std(0), lambda: x.max()):
        assert_queued(call)


def test_on_several_threads() -> None:
    x = torch.randn(64, 8)
    expected = functional.layer_norm(x, (8,)).std(0)
    results: list[Tensor] = []

    def work(index: int) -> None:
        device = DEVICES[index % len(DEVICES)]
        with torch.Stream(device):
            for _ in range(20):
                results.append(functional.layer_norm(x.to(device), (8,)).std(0).cpu())

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80
    for result in results:
        torch.testing.assert_close(result, expected)


def layouts(x: Tensor) -> Iterator[Tensor]:
    """The same numbers row-major, transposed, with gaps, without a batch, and channels-last."""
    yield x
    yield x.mT.contiguous().mT
    yield torch.stack([x, x], -1)[..., 0]
    yield x[0]
    yield x.to(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)


def placed(x: Tensor, device: str = "openreg") -> Tensor:
    """The tensor on the device, with the same strides."""
    if 0 in x.shape:
        return x.to(device)
    there = torch.as_strided(x, (x.untyped_storage().nbytes() // x.element_size(),), (1,), 0).to(device)
    return there.as_strided(x.shape, x.stride(), x.storage_offset())


def with_gradient(call: Callable[[Tensor], Tensor]) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """What the call gives, and the derivative of its squares."""

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        leaf = x.detach().requires_grad_()
        y = call(leaf)
        return y.detach(), torch.autograd.grad(y.square().sum(), leaf)[0]

    return run


WINDOWS: dict[str, Callable[[Tensor], object]] = {
    "adaptive average": with_gradient(lambda x: functional.adaptive_avg_pool2d(x, (2, 3))),
    "reflected": with_gradient(lambda x: functional.pad(x, (1, 2, 3, 1), mode="reflect")),
    "replicated": with_gradient(lambda x: functional.pad(x, (1, 2, 3, 1), mode="replicate")),
    "cropped": with_gradient(lambda x: functional.pad(x, (1, -2, -1, 1), mode="replicate")),
    "unpooled": lambda x: functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), [2, 2]),
}
VOLUMES: dict[str, Callable[[Tensor], object]] = {
    "adaptive average": with_gradient(lambda x: functional.adaptive_avg_pool3d(x, (2, None, 1))),
    "largest": with_gradient(lambda x: functional.max_pool3d(x, 2, stride=1, padding=1, ceil_mode=True)),
    "largest and where": lambda x: functional.max_pool3d(x, (1, 2, 3), dilation=(1, 1, 2), return_indices=True),
    "reflected": with_gradient(lambda x: functional.pad(x, (1, 2, 3, 1, 0, 1), mode="reflect")),
    "replicated": with_gradient(lambda x: functional.pad(x, (1, 2, 3, 1, 1, 0), mode="replicate")),
    "unpooled": lambda x: functional.max_unpool3d(*functional.max_pool3d(x, 2, return_indices=True), [2, 2, 2]),
}
ELEMENTS: dict[str, Callable[[Tensor], object]] = {
    "gated": with_gradient(lambda x: functional.glu(x, -2)),
    "log of sigmoid": with_gradient(functional.logsigmoid),
    "hard swish": with_gradient(functional.hardswish),
    "cross entropy": with_gradient(lambda x: functional.binary_cross_entropy(x.sigmoid(), torch.full_like(x, 0.3))),
    "cross entropy of each": with_gradient(
        lambda x: functional.binary_cross_entropy(x.sigmoid(), x.detach().sigmoid(), x.detach().abs(), reduction="none")
    ),
    "squares": with_gradient(lambda x: functional.mse_loss(x, x.detach() * 2)),
    "squares of each": with_gradient(lambda x: functional.mse_loss(x, x.detach() * 2, reduction="none")),
    "smooth": with_gradient(lambda x: functional.smooth_l1_loss(x, x.detach() * 2, beta=0.5, reduction="sum")),
    "flipped": with_gradient(lambda x: x.flip(0, -1)),
    "rolled": with_gradient(lambda x: x.roll((1, 2), (0, 1)).roll(3)),
    "windows": with_gradient(lambda x: x.unfold(-1, 3, 2)),
    "running": with_gradient(lambda x: x.logcumsumexp(1)),
    "running extremes": lambda x: (x.cummax(1), x.cummin(-1)),
    "sums": lambda x: (x.nansum(), x.nansum((0, 1), keepdim=True), x.bool().nansum(1), x.double().nansum(0)),
    "counts": lambda x: ((x > 0).count_nonzero(), (x > 0).count_nonzero((0, -1)), x.relu().count_nonzero(1)),
    "middles": lambda x: (x.median(), x.nanmedian(), x.median(1), x.nanmedian(0, keepdim=True), x.kthvalue(2, -1)),
    "most frequent": lambda x: x.round().mode(1),
    "whole": lambda x: (x.max(), x.min(), x.prod(), x.flatten().dot(x.flatten()), x.select(0, 0).flatten(1).trace()),
    "outputs": lambda x: (torch.std(x, 1, out=x.new_empty(0)), torch.max(x, out=x.new_empty(0))),
    "complex": lambda x: (
        torch.complex(x, -x),
        torch.polar(x.abs(), x),
        torch.vdot(*[torch.complex(x, x).flatten()] * 2),
    ),
    "places": lambda x: (
        x.relu().nonzero(),
        (x > 0).nonzero(as_tuple=True),
        x.take(torch.tensor([0, -1]).to(x.device)),
    ),
    "chosen": with_gradient(lambda x: x[x > 0]),
    "chosen rows": lambda x: x.masked_select(x.select(-1, 0).unsqueeze(-1) > 0),
    "repeated": lambda x: x.repeat_interleave(torch.arange(x.shape[-2]).to(x.device), -2),
    "divided": lambda x: (x // 2, 7 // x, x // x.abs(), x.clone().floor_divide_(3), torch.logical_not(x > 0)),
}


@pytest.mark.parametrize(
    ("call", "dims"),
    [
        *((call, 4) for call in (WINDOWS | ELEMENTS).values()),
        *((call, 5) for call in VOLUMES.values()),
    ],
    ids=[*WINDOWS, *ELEMENTS, *(f"volume {name}" for name in VOLUMES)],
)
def test_every_order_in_memory(call: Callable[[Tensor], object], dims: int) -> None:
    torch.manual_seed(0)
    for x in layouts(torch.randn(2, 3, 6, 8) if dims == 4 else torch.randn(2, 3, 4, 6, 8)):
        expected, actual = call(x), call(placed(x))
        torch.testing.assert_close(pytree.tree_map(Tensor.cpu, actual), expected)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.uint8, torch.bool], ids=str)
def test_factories(dtype: torch.dtype) -> None:
    for call in (
        lambda d: torch.arange(5, dtype=dtype, device=d),
        lambda d: torch.arange(-2, 3, 2, device=d).to(dtype),
        lambda d: torch.linspace(0, 9, 4, dtype=dtype, device=d),
        lambda d: torch.logspace(0, 2, 3, dtype=dtype, device=d),
        lambda d: torch.eye(3, dtype=dtype, device=d),
        lambda d: torch.eye(2, 0, dtype=dtype, device=d),
        lambda d: torch.arange(6, out=torch.empty(2, 3, dtype=dtype, device=d)),
        lambda d: torch.arange(4, out=torch.zeros(8, dtype=dtype, device=d)[::2]),
    ):
        outcomes: list[Tensor | str] = []
        for device in ("cpu", LAST_DEVICE):
            try:
                outcomes.append(call(device))
            except RuntimeError as error:
                outcomes.append(str(error))
        expected, actual = outcomes
        if isinstance(expected, str) or isinstance(actual, str):
            assert actual == expected
        else:
            assert actual.device == torch.device(LAST_DEVICE)
            torch.testing.assert_close(actual.cpu(), expected, check_stride=actual.is_contiguous())


# Of each operator whose CPU function writes an output as it would allocate it: the arguments, without the output.
PLANES, BLOCKS = torch.randn(2, 3, 6, 8), torch.randn(2, 3, 4, 6, 8)
SAMPLES = torch.rand(2, 3, 3)
IN_ONE_LAYOUT: dict[str, tuple[Any, ...]] = {
    "_softmax.out": (PLANES, 1, False),
    "_log_softmax.out": (PLANES, 1, False),
    "_softmax_backward_data.out": (PLANES, PLANES.softmax(1), 1, torch.float32),
    "adaptive_avg_pool2d.out": (PLANES, [3, 2]),
    "adaptive_avg_pool3d.out": (BLOCKS, [2, 3, 2]),
    "adaptive_max_pool3d.out": (BLOCKS, [2, 3, 2]),
    "avg_pool3d.out": (BLOCKS, 2),
    "avg_pool3d_backward.grad_input": (
        torch.randn(2, 3, 2, 3, 4),
        BLOCKS,
        [2] * 3,
        [2] * 3,
        [0] * 3,
        False,
        True,
        None,
    ),
    "fractional_max_pool2d.output": (PLANES, [2, 2], [3, 4], SAMPLES[..., :2]),
    "fractional_max_pool3d.output": (BLOCKS, [2] * 3, [2, 3, 4], SAMPLES),
    "gelu.out": (PLANES,),
    "log_sigmoid_forward.output": (PLANES,),
    "max_pool3d_with_indices.out": (BLOCKS, 2),
    "max_unpool2d.out": (torch.ones(1, 1, 1, 2), torch.tensor([[[[1, 6]]]]), [2, 4]),
    "max_unpool3d.out": (torch.ones(1, 1, 1, 1, 2), torch.tensor([[[[[1, 6]]]]]), [1, 2, 4], [1, 2, 2], [0] * 3),
    "reflection_pad2d.out": (PLANES, [1, 1, 2, 2]),
    "reflection_pad2d_backward.grad_input": (torch.randn(2, 3, 10, 10), PLANES, [1, 1, 2, 2]),
    "replication_pad2d_backward.grad_input": (torch.randn(2, 3, 10, 10), PLANES, [1, 1, 2, 2]),
    "replication_pad3d_backward.grad_input": (torch.randn(2, 3, 6, 8, 10), BLOCKS, [1] * 6),
    "tril.out": (PLANES,),
    "triu.out": (PLANES, 1),
    "upsample_bicubic2d_backward.grad_input": (torch.randn(2, 3, 12, 16), [12, 16], [2, 3, 6, 8], False),
}


@pytest.mark.parametrize("name", IN_ONE_LAYOUT)
@pytest.mark.parametrize("channels_last", [False, True])
def test_a_given_output_keeps_its_strides(name: str, channels_last: bool) -> None:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d} if channels_last else {}

    def laid_out(x: Tensor) -> Tensor:
        return x.to(memory_format=formats.get(x.dim(), torch.preserve_format))

    packet, _, overload = name.partition(".")
    operator = getattr(torch.ops.aten, packet)
    arguments = pytree.tree_map_only(Tensor, laid_out, IN_ONE_LAYOUT[name])
    there = pytree.tree_map_only(Tensor, lambda x: x.to(LAST_DEVICE), arguments)
    expected = pytree.tree_leaves(operator.default(*arguments))
    names = [argument.name for argument in getattr(operator, overload)._schema.arguments if argument.is_out]

    for of_columns, of_rows in ((2, 1), (1, 2), (2, 2)):
        bases = [
            torch.full((*one.shape[:-2], of_rows * one.shape[-2], of_columns * one.shape[-1]), -1, dtype=one.dtype)
            for one in expected
        ]
        outs = [base.to(LAST_DEVICE)[..., ::of_rows, ::of_columns] for base in bases]
        strides = [out.stride() for out in outs]
        getattr(operator, overload)(*there, **dict(zip(names, outs, strict=True)))
        assert [out.stride() for out in outs] == strides
        for base, out, one in zip(bases, outs, expected, strict=True):
            base[..., ::of_rows, ::of_columns] = one
            torch.testing.assert_close(out._base.cpu(), base)  # what lies between is left alone


@pytest.mark.parametrize("call", [torch.max, torch.min, lambda x, out: torch.std(x, 0, out=out)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("given", [torch.bool, torch.int64, torch.bfloat16, torch.float64, torch.complex64])
def test_a_result_is_converted_to_the_dtype_of_the_output_where_that_can_hold_it(
    call: Callable[..., Tensor], dtype: torch.dtype, given: torch.dtype
) -> None:
    outcomes: list[Tensor | None] = []
    for device in ("cpu", "openreg"):
        out = torch.zeros((), dtype=given, device=device)
        try:
            outcomes.append(call(torch.tensor([3, 1, 2], device=device).to(dtype), out=out).cpu())
        except RuntimeError:
            outcomes.append(None)
    expected, actual = outcomes
    assert (actual is None) == (expected is None)
    if expected is not None:
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_index_select_does_not_write_where_it_reads(device: str) -> None:
    x = torch.arange(6, device=device)
    for values, index in ((x, x.clone()), (x.clone(), x)):
        with pytest.raises(
            RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a"
        ):
            torch.index_select(values, 0, index, out=x.view(6))
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


WRONG: dict[str, Callable[[Tensor], object]] = {
    "dimension": lambda x: x.roll(1, 5),
    "dimensions": lambda x: x.flip(0, 0),
    "shifts": lambda x: x.roll((1, 2), 0),
    "gated": lambda x: torch.ops.aten.glu_backward(x, x, 1),
    "gradient": lambda x: torch.ops.aten.glu_backward(x, torch.ones(2, 4, device=x.device), 1),
    "matrix": lambda x: x[0].trace(),
    "vectors": lambda x: x[0].dot(x[0, :2]),
    "dtypes": lambda x: x[0].dot(x[0].int()),
    "middle": lambda x: x[:, :0].median(1),
    "k": lambda x: x.kthvalue(4, 1),
    "probability": lambda x: functional.binary_cross_entropy(x * 3, x),
    "sizes": lambda x: functional.binary_cross_entropy(x, x[0]),
    "class": lambda x: functional.nll_loss(x[None, :, :, None], torch.full((1, 3, 1), 7, device=x.device)),
    "place": lambda x: x.take(torch.tensor([99], device=x.device)),
    "mask": lambda x: x.masked_select(x),
    "repeats": lambda x: x.repeat_interleave(torch.tensor([1, -1], device=x.device), dim=0),
    "window": lambda x: functional.max_pool3d(x[None, None], 2),
    "kernel": lambda x: functional.max_pool3d(x.expand(1, 1, 2, 2, 3), (1, 1)),
    "stride": lambda x: functional.max_pool3d(x.expand(1, 1, 2, 2, 3), 1, stride=(1, 1)),
    "dilation": lambda x: functional.max_pool3d(x.expand(1, 1, 2, 2, 3), 2, dilation=9),
    "negative repeats": lambda x: torch.repeat_interleave(torch.tensor([-3], device=x.device)),
    "border": lambda x: functional.pad(x[None], (5, 5, 5, 5), mode="reflect"),
    "size": lambda x: functional.adaptive_avg_pool2d(x[None], -1),
    "unpooled": lambda x: functional.max_unpool2d(x[None], torch.full((1, 2, 3), 99, device=x.device), [2, 2]),
    "boolean": lambda x: x[:2, :2].bool().trace(),
    "complex": lambda x: torch.complex(x, x.double()),
    "order": lambda x: torch.arange(3, 1, device=x.device),
    "steps": lambda x: torch.linspace(0, 1, -1, device=x.device),
    "rows": lambda x: torch.eye(-1, device=x.device),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused_at_the_call_in_the_cpus_words(call: Callable[[Tensor], object]) -> None:
    messages = []
    for device in ("cpu", "openreg"):
        with pytest.raises((RuntimeError, IndexError, ValueError, NotImplementedError), match=r"\w") as raised:
            call(torch.ones(2, 3, device=device))
        messages.append(f"{type(raised.value).__name__}: {raised.value}")
    assert messages[0] == messages[1]
    torch.openreg.synchronize()  # the device still works
    assert torch.ones(1, device="openreg").item() == 1


def test_a_kind_that_is_known_has_these_sizes() -> None:
    x = torch.ones(2, 2, device="openreg")
    for _ in range(2):
        assert x.roll(1, 1).shape == torch.ops.aten.glu_backward(x[:, :1], x, 1).shape == (2, 2)
        with pytest.raises(IndexError, match="got 2"):
            x.roll(1, 2)
        with pytest.raises(RuntimeError, match="must match the size"):
            torch.ops.aten.glu_backward(torch.ones(2, 3, device="openreg"), torch.ones(2, 4, device="openreg"), 1)
    torch.openreg.synchronize()


def test_equal() -> None:
    x = torch.arange(6.0).view(2, 3)
    for other in (x, x + 0, x.mT.contiguous().mT, x + 1, x[:1], x.int(), x * float("nan"), x[:0]):
        assert torch.equal(x.to("openreg"), other.to("openreg")) is torch.equal(x, other)
    assert torch.equal(x[:0].to("openreg"), x[:0].to("openreg"))
    with pytest.raises(RuntimeError, match=r"on different devices. Got: openreg:0 and cpu"):
        torch.equal(x.to("openreg"), x)


def test_repeats_of_nothing() -> None:
    none = torch.empty(0, dtype=torch.int64, device="openreg")
    assert torch.repeat_interleave(none, output_size=3).shape == (0,)
    assert torch.repeat_interleave(torch.empty(0, device="openreg"), none, output_size=2).shape == (0,)
