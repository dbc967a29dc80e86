"""scaled_dot_product_attention compared with the CPU: the chosen implementation, its values and its gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.offers import DEVICES, LAST_DEVICE

# The tests check which fused kernel is chosen, and what it computes.
pytestmark = pytest.mark.needs("host kernels")

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
# The CPU's math rounds between its steps, the kernel only at the end.
TOLERANCES: dict[torch.dtype, dict[str, Any]] = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.bfloat16: {"rtol": 0.05, "atol": 0.05},
    torch.float16: {"rtol": 0.01, "atol": 0.01},
}
OVERRIDEABLE, MATH = SDPBackend.OVERRIDEABLE, SDPBackend.MATH
# Untyped, because the tests pass lists of arguments.
scaled_dot_product_attention: Any = functional.scaled_dot_product_attention
LOWER = torch.ones(5, 7).tril().bool()
# Since PyTorch 2.14 a fused kernel never sees three dimensions.
ADDS_A_DIMENSION = torch.torch_version.TorchVersion(torch.__version__) >= "2.14"

# Sizes of query, key and value, and the other arguments. A tuple for a mask is the size of an additive one.
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4), {}),
    "another number of keys": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {}),
    "another head size of value": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6), {}),
    "three dimensions": ((3, 5, 4), (3, 7, 4), (3, 7, 4), {}),
    "causal": ((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4), {"is_causal": True}),
    "causal, more keys": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"is_causal": True}),
    "causal, fewer keys": ((2, 3, 5, 4), (2, 3, 2, 4), (2, 3, 2, 4), {"is_causal": True}),
    "scale": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"scale": 0.3}),
    "negative scale": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"scale": -2.0}),
    "bool mask": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"attn_mask": LOWER}),
    "bool mask of a batch": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"attn_mask": LOWER.expand(2, 1, 5, 7)}),
    "bool mask of keys": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"attn_mask": LOWER[2:4, None, None]}),
    "a row that is hidden": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"attn_mask": LOWER & (torch.arange(7) > 1)}),
    "bias": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"attn_mask": (2, 3, 5, 7)}),
    "bias of all batches and heads": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"attn_mask": (5, 7)}),
    "bias of a head": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"attn_mask": (3, 1, 7)}),
    "bias of rows": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), {"attn_mask": (2, 1, 5, 1)}),
    "bias, three dimensions": ((3, 5, 4), (3, 7, 4), (3, 7, 4), {"attn_mask": (3, 5, 7)}),
    "grouped heads": ((2, 6, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4), {"enable_gqa": True}),
    "grouped heads, bias": ((2, 6, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4), {"enable_gqa": True, "attn_mask": (6, 5, 7)}),
    "one head of key": ((2, 6, 5, 4), (2, 1, 7, 4), (2, 1, 7, 6), {"enable_gqa": True, "is_causal": True}),
    "groups of two sizes": ((1, 6, 5, 4), (1, 3, 7, 4), (1, 2, 7, 4), {"enable_gqa": True}),
    "grouped heads, three dimensions": ((6, 5, 4), (2, 7, 4), (2, 7, 4), {"enable_gqa": True}),
    "one position": ((2, 3, 1, 4), (2, 3, 1, 4), (2, 3, 1, 4), {}),
    "no batch": ((0, 3, 5, 4), (0, 3, 7, 4), (0, 3, 7, 4), {}),
    "no queries": ((2, 3, 0, 4), (2, 3, 7, 4), (2, 3, 7, 4), {}),
    "no keys": ((2, 3, 5, 4), (2, 3, 0, 4), (2, 3, 0, 4), {}),
    "no columns": ((2, 3, 5, 0), (2, 3, 7, 0), (2, 3, 7, 4), {"scale": 1.0}),
    "no columns of value": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 0), {}),
}


# Fewer keys than this are computed by the kernels, more by the library.
FEW, MANY = 7, 35


def longer(case: tuple[Any, ...]) -> tuple[Any, ...]:
    """A case with five times as many queries and keys."""
    *sizes, options = case
    sizes = [(*size[:-2], 5 * size[-2], size[-1]) for size in sizes]
    mask = options.get("attn_mask")
    if isinstance(mask, tuple):
        options = {**options, "attn_mask": (*mask[:-2], *(n if n == 1 else 5 * n for n in mask[-2:]))}
    elif mask is not None:
        for dim in (-2, -1):
            mask = mask if mask.shape[dim] == 1 else mask.repeat_interleave(5, dim)
        options = {**options, "attn_mask": mask}
    return (*sizes, options)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    before = torch.openreg.get_rng_state_all()
    torch.manual_seed(5)
    yield
    torch.openreg.set_rng_state_all(before)


def close(actual: Any, expected: Any, dtype: torch.dtype = torch.float32) -> None:
    torch.testing.assert_close(actual, expected, check_device=False, **TOLERANCES.get(dtype, {}))


def chosen(*tensors: Tensor | None, **options: Any) -> SDPBackend:
    choice: Any = torch._fused_sdp_choice
    return SDPBackend(choice(*tensors, **options))


def random(size: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(size, dtype=torch.float64).to(dtype)


def results(tensors: list[Tensor], mask: Tensor | None, options: dict[str, Any], device: str) -> list[Tensor]:
    """The output, and the gradients of query, key, value and an additive mask."""
    leaves = [tensor.to(device).requires_grad_() for tensor in tensors]
    on_device = None if mask is None else mask.to(device)
    if on_device is not None and on_device.is_floating_point():
        leaves.append(on_device.requires_grad_())
    allowed: AbstractContextManager[Any] = sdpa_kernel(MATH) if device == "cpu" else nullcontext()
    with allowed:
        output = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], on_device, **options)
    weights = torch.linspace(-1, 1, output.numel()).reshape(output.shape).to(output)
    return [output, *torch.autograd.grad(output, leaves, weights)]


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("keys", [FEW, MANY])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str, keys: int, dtype: torch.dtype) -> None:
    *sizes, options = CASES[case] if keys == FEW else longer(CASES[case])
    tensors = [random(size, dtype) for size in sizes]
    options = dict(options)
    mask = options.pop("attn_mask", None)
    if isinstance(mask, tuple):
        mask = random(mask, dtype)
    on_device = [tensor.to("openreg") for tensor in tensors]
    device_mask = None if mask is None else mask.to("openreg")
    assert chosen(on_device[0], on_device[1], on_device[2], device_mask, **options) == OVERRIDEABLE
    torch.openreg.reset_fallback_stats()
    actual = results(tensors, mask, options, "openreg")
    assert not [name for name in torch.openreg.fallback_stats() if "attention" in name or "sdp" in name]
    for one, other in zip(actual, results(tensors, mask, options, "cpu"), strict=True):
        assert one.dtype == other.dtype
        close(one.cpu(), other, dtype)


@pytest.mark.parametrize("keys", [FEW, MANY])
@pytest.mark.parametrize("learns_bias", [False, True], ids=["bias", "gradient of bias"])
def test_any_strides(keys: int, learns_bias: bool) -> None:
    tensors = [
        random((2, 5, 3, 4)).transpose(1, 2),
        random((2, 3, 4, keys)).transpose(2, 3),
        random((2, 3, 2 * keys, 12))[:, :, ::2, ::3],
        random((keys, 5)).t(),
    ]
    strided = []
    for tensor in tensors:
        whole = tensor if tensor._base is None else tensor._base  # `to` keeps no strides of a view with gaps
        strided.append(whole.to("openreg").as_strided(tensor.shape, tensor.stride()))
    assert not any(tensor.is_contiguous() for tensor in strided)
    weights = random((4, 5, 3, 2)).permute(3, 2, 1, 0)  # the gradient of the output, in no order that a kernel expects
    both = []
    for on_device in (tensors, strided):
        leaves = [tensor.detach().requires_grad_() for tensor in on_device[: 4 if learns_bias else 3]]
        with sdpa_kernel(MATH) if on_device is tensors else nullcontext():
            output = scaled_dot_product_attention(*leaves, *on_device[len(leaves) :])
        gradient = (
            weights.to("openreg").as_strided(weights.shape, weights.stride()) if on_device is strided else weights
        )
        both.append([tensor.cpu() for tensor in (output, *torch.autograd.grad(output, leaves, gradient))])
    close(both[1], both[0])


def test_the_order_in_memory_is_that_of_query() -> None:
    query = random((2, 5, 3, 4)).transpose(1, 2).to("openreg")
    output = scaled_dot_product_attention(query, query, query)
    assert output.transpose(1, 2).is_contiguous()
    wider = scaled_dot_product_attention(query, query, torch.cat([query, query], 3))
    assert wider.shape == (2, 3, 5, 8)
    assert wider.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("keys", [FEW, MANY])
def test_tensors_that_repeat_in_memory(keys: int) -> None:
    sizes = (2, 3, keys, 4)
    tensors = [random((2, 3, 5, 4)), random((1, 1, keys, 4)).expand(sizes), random((1, 3, keys, 4)).expand(sizes)]
    on_device = [tensors[0].to("openreg"), *(tensor[:1, :1].to("openreg").expand(sizes) for tensor in tensors[1:])]
    expected = scaled_dot_product_attention(tensors[0], tensors[1], tensors[2][:, :1].expand(sizes))
    close(scaled_dot_product_attention(*on_device).cpu(), expected)


# Numbers of keys around those of a vector register, of which the library computes the rest in another way.
@pytest.mark.parametrize("keys", [1, 5, 8, 15, 16, 17, 31, 33, 513])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_nan_stays_in_its_row(keys: int, dtype: torch.dtype) -> None:
    query = random((1, 1, 3, 4), dtype)
    key, value = random((1, 1, keys, 4), dtype), random((1, 1, keys, 4), dtype)
    query[0, 0, 1, 2] = math.nan
    output = scaled_dot_product_attention(query.to("openreg"), key.to("openreg"), value.to("openreg")).cpu()
    assert output.isnan().all(-1).flatten().tolist() == [False, True, False]
    expected = scaled_dot_product_attention(query, key, value)
    close(output[0, 0, ::2], expected[0, 0, ::2], dtype)


@pytest.mark.parametrize("keys", [5, 16, 35])
def test_a_nan_stays_before_what_a_mask_hides(keys: int) -> None:
    query, key, value = random((1, 1, 3, 4)), random((1, 1, keys, 4)), random((1, 1, keys, 4))
    key[0, 0, 0] = math.nan
    for columns in ([True] + [False] * (keys - 1), [False] * keys, [True] * keys):
        both = [
            scaled_dot_product_attention(
                *(tensor.to(device) for tensor in (query, key, value, torch.tensor([columns])))
            )
            for device in ("cpu", "openreg")
        ]
        assert all(output.isnan().all() for output in both)


def test_large_scores_do_not_overflow() -> None:
    tensors = [100 * random((1, 1, 4, 8)) for _ in range(3)]
    expected = results(tensors, None, {}, "cpu")
    close([tensor.cpu() for tensor in results(tensors, None, {}, "openreg")], expected)


@pytest.mark.filterwarnings("ignore:Backwards compatibility")  # a warning about the defaults of gradcheck
@pytest.mark.parametrize("options", [{}, {"is_causal": True}], ids=["bias", "causal"])
@pytest.mark.parametrize("keys", [3, 17])
def test_finite_differences(keys: int, options: dict[str, Any]) -> None:
    sizes = (1, 2, 3, 2), (1, 2, keys, 2), (1, 2, keys, 2)
    leaves = [random(size, torch.float64).to("openreg").requires_grad_() for size in sizes]
    bias = [] if options else [random((2, 1, keys), torch.float64).to("openreg").requires_grad_()]
    assert torch.autograd.gradcheck(
        lambda *tensors: scaled_dot_product_attention(*tensors, **options), (*leaves, *bias), atol=1e-6
    )


def test_only_the_gradients_that_are_wanted_are_computed() -> None:
    tensors = [random((1, 2, 20, 4)).to("openreg") for _ in range(3)]
    bias = random((20, 20)).to("openreg")
    backward = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward
    forward = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(*tensors, bias)
    output, logsumexp, _, _, queries, keys, seed, offset, _ = forward
    all_of_them = None
    for mask in ([True] * 4, [True, False, False, False], [False, True, False, True], [False, False, True, False]):
        grads = backward(
            output, *tensors, bias, mask, output, logsumexp, None, None, queries, keys, 0.0, False, seed, offset
        )
        assert [grad is not None for grad in grads] == mask
        all_of_them = all_of_them or grads
        for grad, whole in zip(grads, all_of_them, strict=True):
            if grad is not None:
                close(grad, whole)  # without the gradient of the bias, the library computes them


@pytest.mark.parametrize("keys", [FEW, MANY])
def test_logsumexp(keys: int) -> None:
    query, key = random((2, 3, 5, 4)), random((2, 3, keys, 4))
    bias = torch.zeros(5, keys).masked_fill(torch.arange(5)[:, None] == 2, -math.inf)
    tensors = [tensor.to("openreg") for tensor in (query, key, key)]
    forward = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    expected = (query @ key.transpose(2, 3) / 2).logsumexp(-1)
    close(forward(*tensors)[1].cpu(), expected)
    close(forward(*tensors, bias.to("openreg"))[1].cpu(), expected.index_fill(-1, torch.tensor([2]), -math.inf))


@pytest.mark.parametrize("keys", [FEW, MANY])
def test_logsumexp_of_a_causal_row_that_the_bias_hides(keys: int) -> None:
    """The bias hides the first two columns, all that the first two rows see. Only a direct call may have both."""
    query, key = random((2, 3, keys, 4)), random((2, 3, keys, 4))
    bias = torch.zeros(keys, keys).masked_fill(torch.arange(keys) < 2, -math.inf)
    tensors = [tensor.to("openreg") for tensor in (query, key, key, bias)]
    forward = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    later = torch.ones(keys, keys, dtype=torch.bool).triu(1)
    expected = (query @ key.transpose(2, 3) / 2 + bias).masked_fill(later, -math.inf).logsumexp(-1)
    assert expected[..., :2].isneginf().all()
    close(forward(*tensors, is_causal=True)[1].cpu(), expected)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"attn_mask": (3, 40, 40)}], ids=str)
def test_the_library_computes_what_the_kernels_do(options: dict[str, Any]) -> None:
    """A value with one more column goes to the kernels: all other columns are the same, and their gradients."""
    options = dict(options)
    mask = options.pop("attn_mask", None)
    tensors = [random((2, 3, 40, 8), torch.float64).to("openreg") for _ in range(3)]
    bias = None if mask is None else random(mask, torch.float64).to("openreg")
    weights = random((2, 3, 40, 8), torch.float64).to("openreg")
    both = []
    for extra in (0, 1):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        value = functional.pad(leaves[2], (0, extra), value=2.0)
        output = scaled_dot_product_attention(leaves[0], leaves[1], value, bias, **options)[..., :8]
        both.append([output, *torch.autograd.grad(output, leaves, weights)])
    close(both[0], both[1], torch.float64)


class TestDropout:
    """The device's generator draws the mask, and the backward draws it again."""

    def test_a_seed_fixes_it(self) -> None:
        query = random((1, 2, 6, 4)).to("openreg")
        outputs = []
        for seed in (1, 1, 2):
            torch.openreg.manual_seed(seed)
            outputs.append(scaled_dot_product_attention(query, query, query, dropout_p=0.5))
        assert torch.equal(outputs[0], outputs[1])
        assert not torch.equal(outputs[0], outputs[2])

    def test_each_call_draws_anew(self) -> None:
        query = random((1, 2, 6, 4)).to("openreg")
        first, second = (scaled_dot_product_attention(query, query, query, dropout_p=0.5) for _ in range(2))
        assert not torch.equal(first, second)

    def test_without_dropout_nothing_is_drawn(self) -> None:
        query = random((1, 2, 6, 4)).to("openreg")
        before = torch.openreg.get_rng_state()
        scaled_dot_product_attention(query, query, query)
        assert torch.equal(torch.openreg.get_rng_state(), before)

    def test_the_mask_and_its_gradients(self) -> None:
        """With the identity matrix as value, the output is the matrix of weights, which shows what was dropped."""
        heads, length = 3, 6
        query, key = random((2, heads, length, 4), torch.float64), random((2, heads, length, 4), torch.float64)
        identity = torch.eye(length, dtype=torch.float64).expand(2, heads, length, length)
        leaves = [tensor.to("openreg").requires_grad_() for tensor in (query, key, identity.clone())]
        output = scaled_dot_product_attention(*leaves, dropout_p=0.25)
        kept = (output != 0).cpu()
        assert 0.5 < kept.double().mean() < 0.95

        expected_leaves = [leaf.detach().cpu().requires_grad_() for leaf in leaves]
        weights = (expected_leaves[0] @ expected_leaves[1].transpose(2, 3) / 2).softmax(-1) * kept / 0.75
        expected = weights @ expected_leaves[2]
        close(output.cpu(), expected, torch.float64)
        out = random(tuple(expected.shape), torch.float64)
        actual_grads = torch.autograd.grad(output, leaves, out.to("openreg"))
        expected_grads = torch.autograd.grad(expected, expected_leaves, out)
        close([grad.cpu() for grad in actual_grads], list(expected_grads), torch.float64)

    def test_how_many_are_dropped(self) -> None:
        length = 64
        query = torch.zeros(1, 4, length, 1, device="openreg")
        identity = torch.eye(length, device="openreg").expand(1, 4, length, length)
        kept = scaled_dot_product_attention(query, query, identity, dropout_p=0.3) != 0
        assert abs(kept.double().mean().item() - 0.7) < 0.02

    def test_everything(self) -> None:
        query = random((1, 2, 6, 4)).to("openreg").requires_grad_()
        output = scaled_dot_product_attention(query, query, query, dropout_p=1.0)
        output.sum().backward()
        assert query.grad is not None
        assert output.count_nonzero() == 0
        assert query.grad.count_nonzero() == 0


class TestChoice:
    """Which implementation runs: what sdpa_kernel allows, and what the kernel supports."""

    query = torch.ones(1, 2, 3, 4, device="openreg")

    def names(self, *backends: SDPBackend, **options: Any) -> SDPBackend:
        with sdpa_kernel(list(backends), **options):
            return chosen(self.query, self.query, self.query)

    def test_the_caller_s_wish(self) -> None:
        assert chosen(self.query, self.query, self.query) == OVERRIDEABLE
        assert self.names(MATH) == MATH
        assert self.names(OVERRIDEABLE) == OVERRIDEABLE
        assert self.names(MATH, OVERRIDEABLE) == OVERRIDEABLE
        assert self.names(SDPBackend.FLASH_ATTENTION, MATH) == MATH

    def test_the_caller_s_order(self) -> None:
        assert self.names(MATH, OVERRIDEABLE, set_priority=True) == MATH
        assert self.names(OVERRIDEABLE, MATH, set_priority=True) == OVERRIDEABLE
        assert self.names(OVERRIDEABLE, set_priority=True) == OVERRIDEABLE

    @pytest.mark.parametrize(
        "backends",
        [[], [SDPBackend.FLASH_ATTENTION], [SDPBackend.EFFICIENT_ATTENTION], [SDPBackend.CUDNN_ATTENTION]],
        ids=str,
    )
    def test_nothing_is_allowed(self, backends: list[SDPBackend]) -> None:
        message = (
            "openreg: no implementation of scaled_dot_product_attention is left. sdpa_kernel does not allow "
            "SDPBackend.MATH; of the kernel of this device: sdpa_kernel does not allow SDPBackend.OVERRIDEABLE"
        )
        with sdpa_kernel(backends), pytest.raises(RuntimeError, match=message):
            scaled_dot_product_attention(self.query, self.query, self.query)

    def test_math_really_runs(self) -> None:
        for backend, operator in (
            (MATH, "aten::_scaled_dot_product_attention_math"),
            (OVERRIDEABLE, "aten::_scaled_dot_product_fused_attention_overrideable"),
        ):
            with (
                torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile,
                sdpa_kernel(backend),
            ):
                scaled_dot_product_attention(self.query, self.query, self.query)
            called = {event.name for event in profile.events()}
            assert operator in called
            assert len([name for name in called if name.startswith("aten::_scaled_dot")]) == 1

    @pytest.mark.parametrize(
        ("query", "key", "value", "mask", "options", "refusal"),
        [
            ((3, 4), (3, 4), (3, 4), None, {}, "three dimensions each, or four"),
            ((2, 1, 2, 3, 4), (2, 1, 2, 3, 4), (2, 1, 2, 3, 4), None, {}, "three dimensions each, or four"),
            ((2, 3, 5, 4), (1, 3, 5, 4), (1, 3, 5, 4), None, {}, "one batch size"),
            ((2, 3, 5, 4), (2, 1, 5, 4), (2, 1, 5, 4), None, {}, "as many heads as query"),
            pytest.param(
                *((3, 5, 4), (3, 5, 4), (3, 5, 6), None, {}, "with three dimensions"),
                marks=pytest.mark.skipif(
                    ADDS_A_DIMENSION, reason="PyTorch gives the kernel four dimensions since 2.14"
                ),
            ),
            (
                *((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4), (5, 5), {"is_causal": True}),
                "is_causal stands for a mask|attn_mask should not be set when is_causal=True",  # PyTorch's, since 2.14
            ),
        ],
    )
    def test_what_the_kernel_does_not_take_goes_to_math(
        self, query: Any, key: Any, value: Any, mask: Any, options: Any, refusal: str
    ) -> None:
        tensors = [random(size).to("openreg") for size in (query, key, value)]
        attn_mask = None if mask is None else random(mask).to("openreg")
        assert chosen(tensors[0], tensors[1], tensors[2], attn_mask, **options) == MATH
        if not options:
            expected = scaled_dot_product_attention(*(tensor.cpu() for tensor in tensors))
            close(scaled_dot_product_attention(*tensors).cpu(), expected)
        with sdpa_kernel(OVERRIDEABLE), pytest.raises(RuntimeError, match=refusal):
            scaled_dot_product_attention(tensors[0], tensors[1], tensors[2], attn_mask, **options)

    @pytest.mark.skipif(not ADDS_A_DIMENSION, reason="the kernel refuses three dimensions with other sizes until 2.13")
    def test_three_dimensions_are_four_for_the_kernel(self) -> None:
        query, key, value = (random(size) for size in ((3, 5, 4), (3, 5, 4), (3, 5, 6)))
        expected = scaled_dot_product_attention(query, key, value)
        with sdpa_kernel(OVERRIDEABLE):
            output = scaled_dot_product_attention(*(tensor.to("openreg") for tensor in (query, key, value)))
        close(output.cpu(), expected)

    def test_a_mask_of_another_dtype_goes_to_math(self) -> None:
        query, mask = random((1, 2, 3, 4), torch.float16), random((3, 3))
        assert chosen(*[query.to("openreg")] * 3, mask.to("openreg")) == MATH
        output = scaled_dot_product_attention(*[query.to("openreg")] * 3, mask.to("openreg"))
        close(output.cpu(), scaled_dot_product_attention(query, query, query, mask), torch.float16)

    @pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # in PyTorch's own formulas
    def test_forward_mode_goes_to_math(self) -> None:
        query = random((1, 2, 3, 4))

        def tangent(device: str) -> Any:
            on_device = query.to(device)
            with sdpa_kernel(MATH) if device == "cpu" else nullcontext():
                return torch.func.jvp(
                    lambda q: scaled_dot_product_attention(q, on_device, on_device), (on_device,), (on_device,)
                )[1].cpu()

        close(tangent("openreg"), tangent("cpu"))

    def test_errors_are_those_of_math(self) -> None:
        for sizes in (
            ((1, 4, 3, 4), (1, 3, 3, 4), (1, 3, 3, 4)),
            ((1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 4)),
            ((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 4, 4)),
        ):
            messages = []
            for device in ("cpu", "openreg"):
                # The CPU's own kernel accepts a value whose length differs from the key's.
                with sdpa_kernel(MATH), pytest.raises(RuntimeError) as raised:
                    scaled_dot_product_attention(*(random(size).to(device) for size in sizes))
                messages.append(str(raised.value))
            assert messages[0] == messages[1]

    def test_mixed_devices(self) -> None:
        with pytest.raises(RuntimeError, match="same device"):
            scaled_dot_product_attention(self.query, self.query, self.query, torch.ones(3, 3))
        for other in DEVICES[1:]:
            with pytest.raises(RuntimeError, match="openreg"):
                scaled_dot_product_attention(self.query, self.query.to(other), self.query)


class TestOperators:
    """Called directly, the operators refuse arguments that would make them read out of bounds."""

    forward = staticmethod(torch.ops.aten._scaled_dot_product_fused_attention_overrideable)
    query = torch.ones(1, 2, 3, 4, device="openreg")

    def test_arguments_that_do_not_fit(self) -> None:
        query = self.query
        for arguments, message in (
            ((query, query[..., 1:], query), "key has the columns of query and the positions of value"),
            ((query, query, query[:, :, 1:]), "key has the columns of query and the positions of value"),
            ((query, query.double(), query), "all of float32, float64, float16 or bfloat16"),
            *(((query, query.to(other), query), "on one device") for other in DEVICES[1:]),
            ((query, query, query, torch.ones(4, 3, device="openreg")), "the mask expands to batch"),
            ((query, query, query, torch.ones(3, 3)), "strided tensor on the device of query"),
        ):
            with pytest.raises(RuntimeError, match=f"fused attention this does not hold: .*{message}"):
                self.forward(*arguments)
        with pytest.raises(RuntimeError, match="adds its bias, so it takes Float, got Bool"):
            self.forward(query, query, query, torch.ones(3, 3, device="openreg", dtype=torch.bool))
        with pytest.raises(RuntimeError, match="dropout lies between 0 and 1, got 2"):
            self.forward(query, query, query, dropout_p=2)
        with pytest.raises(NotImplementedError, match="does not return its mask of dropout"):
            self.forward(query, query, query, return_debug_mask=True)

    def test_a_backward_that_does_not_fit(self) -> None:
        output, logsumexp, _, _, queries, keys, seed, offset, _ = self.forward(self.query, self.query, self.query)

        def backward(grad: Tensor, output: Tensor, logsumexp: Tensor, seed: Tensor) -> Any:
            return torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward(
                *(grad, self.query, self.query, self.query, None, [True] * 4, output, logsumexp, None, None),
                *(queries, keys, 0.0, False, seed, offset),
            )

        for wrong in (output[:, 1:], output.double(), output.cpu()):
            for pair in ((wrong, output), (output, wrong)):
                with pytest.raises(RuntimeError, match=r"and its gradient have sizes \[1, 2, 3, 4\] and are of Float"):
                    backward(*pair, logsumexp, seed)
        for arguments in ((logsumexp[:, 1:], seed), (logsumexp, seed.cpu())):
            with pytest.raises(RuntimeError, match="as the forward returned them"):
                backward(output, output, *arguments)

    def test_a_second_derivative_is_math_s(self) -> None:
        query = self.query.clone().requires_grad_()
        (first,) = torch.autograd.grad(
            scaled_dot_product_attention(query, query, query).sum(), query, create_graph=True
        )
        with pytest.raises(RuntimeError, match="fused_attention_overrideable_backward is not implemented"):
            first.sum().backward()
        with sdpa_kernel(MATH):
            output = scaled_dot_product_attention(query, query, query)
        (first,) = torch.autograd.grad(output.pow(2).sum(), query, create_graph=True)
        first.pow(2).sum().backward()
        assert query.grad is not None


def test_the_same_every_time() -> None:
    tensors = [random((2, 4, 33, 16)) for _ in range(3)]
    once, again = (results(tensors, None, {}, "openreg") for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))


def test_on_the_second_device_and_a_stream_of_its_own() -> None:
    query = random((2, 4, 33, 16))
    stream = torch.Stream(LAST_DEVICE)
    with stream:
        leaf = query.to(LAST_DEVICE).requires_grad_()
        output = scaled_dot_product_attention(leaf, leaf, leaf, dropout_p=0.1)
        plain = scaled_dot_product_attention(leaf, leaf, leaf)
        output.sum().backward()
    stream.synchronize()
    assert output.device == torch.device(LAST_DEVICE)
    assert leaf.grad is not None
    close(plain.cpu(), scaled_dot_product_attention(query, query, query))


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"enable_gqa": True}, {"dropout_p": 0.5}], ids=str)
@pytest.mark.parametrize("dim", [3, 4])
def test_compiled(dim: int, options: dict[str, Any]) -> None:
    sizes = [(2, 4, 5, 6), (2, 2 if "enable_gqa" in options else 4, 7, 6)]
    query, key = (random(size[4 - dim :]).to("openreg").requires_grad_() for size in sizes)

    def function(query: Tensor, key: Tensor) -> Any:
        return scaled_dot_product_attention(query, key, key, **options)

    found = []
    for call in (torch.compile(function, backend="aot_eager"), function):
        torch.openreg.manual_seed(1)
        output = call(query, key)
        found.append([output, *torch.autograd.grad(output.square().sum(), (query, key))])
    close(found[0], found[1])


def test_what_torch_compile_expects_of_the_results() -> None:
    query = random((2, 3, 5, 4)).to("openreg")
    wider = random((2, 3, 5, 6)).to("openreg")
    tests = ("test_schema", "test_faketensor")
    for value in (query, wider):
        torch.library.opcheck(
            torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default,
            (query, query, value),
            test_utils=tests,
        )


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap() -> None:
    query = random((3, 2, 4, 5, 6))
    expected = scaled_dot_product_attention(query, query, query)
    on_device = query.to("openreg")
    close(torch.vmap(scaled_dot_product_attention)(on_device, on_device, on_device).cpu(), expected)


@pytest.mark.parametrize("scale", [-1.0, 0.0])
def test_a_scale_that_turns_a_mask_around(scale: float) -> None:
    query, key, value = (torch.randn(1, 1, 32, 8) for _ in range(3))
    options: dict[str, Any] = {"is_causal": True, "scale": scale}
    with sdpa_kernel(SDPBackend.MATH):
        expected = functional.scaled_dot_product_attention(query, key, value, **options)
    attend, there = functional.scaled_dot_product_attention, "openreg"
    here = attend(query.to(there), key.to(there), value.to(there), **options)
    torch.testing.assert_close(here.cpu(), expected)
