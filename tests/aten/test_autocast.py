"""Autocast on the device: policies, values, nesting, the cache of weights, custom functions, messages."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

HALVES = [torch.bfloat16, torch.float16]
KEY = "AutocastPrivateUse1"
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    assert not torch.is_autocast_enabled("openreg")


def on_device(value: Any) -> Any:
    """Moves tensors, also those in lists, to the device; leaves everything else as it is."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("openreg"), value)


def floats(*sizes: int) -> Tensor:
    return torch.rand(*sizes) * 0.8 + 0.1


# Calls of operators in the lists, and the dtype in which autocast computes them from float32.
LOWER: dict[str, Callable[..., Any]] = {
    "conv1d": lambda: (functional.conv1d, floats(2, 3, 6), floats(4, 3, 2), floats(4)),
    "conv2d": lambda: (functional.conv2d, floats(2, 3, 6, 6), floats(4, 3, 2, 2)),
    "conv3d": lambda: (functional.conv3d, floats(1, 2, 4, 4, 4), floats(3, 2, 2, 2, 2)),
    "conv_tbc": lambda: (torch.conv_tbc, floats(5, 2, 3), floats(2, 3, 4), floats(4)),
    "conv_transpose1d": lambda: (functional.conv_transpose1d, floats(2, 3, 6), floats(3, 4, 2)),
    "conv_transpose2d": lambda: (functional.conv_transpose2d, floats(2, 3, 4, 4), floats(3, 4, 2, 2)),
    "conv_transpose3d": lambda: (functional.conv_transpose3d, floats(1, 2, 3, 3, 3), floats(2, 3, 2, 2, 2)),
    "prelu": lambda: (torch.prelu, torch.randn(3, 4), floats(1)),
    "addmm": lambda: (torch.addmm, floats(2, 4), floats(2, 3), floats(3, 4)),
    "addmv": lambda: (torch.addmv, floats(2), floats(2, 3), floats(3)),
    "addr": lambda: (torch.addr, floats(2, 3), floats(2), floats(3)),
    "matmul": lambda: (torch.matmul, floats(2, 2, 3), floats(3, 4)),
    "einsum": lambda: (torch.einsum, "ij,jk->ik", floats(2, 3), floats(3, 4)),
    "mm": lambda: (torch.mm, floats(2, 3), floats(3, 4)),
    "mv": lambda: (torch.mv, floats(2, 3), floats(3)),
    "linalg_vecdot": lambda: (torch.linalg.vecdot, floats(2, 3), floats(2, 3)),
    "linear": lambda: (functional.linear, floats(2, 3), floats(4, 3), floats(4)),
    "addbmm": lambda: (torch.addbmm, floats(2, 4), floats(5, 2, 3), floats(5, 3, 4)),
    "baddbmm": lambda: (torch.baddbmm, floats(5, 2, 4), floats(5, 2, 3), floats(5, 3, 4)),
    "bmm": lambda: (torch.bmm, floats(5, 2, 3), floats(5, 3, 4)),
    "chain_matmul": lambda: (aten.chain_matmul, [floats(2, 3), floats(3, 4), floats(4, 2)]),
    "linalg_multi_dot": lambda: (torch.linalg.multi_dot, [floats(2, 3), floats(3, 4), floats(4, 2)]),
    "rnn_tanh_cell": lambda: (torch.rnn_tanh_cell, floats(2, 3), floats(2, 4), floats(4, 3), floats(4, 4)),
    "rnn_relu_cell": lambda: (torch.rnn_relu_cell, floats(2, 3), floats(2, 4), floats(4, 3), floats(4, 4)),
    "gru_cell": lambda: (torch.gru_cell, floats(2, 3), floats(2, 4), floats(12, 3), floats(12, 4)),
    "lstm_cell": lambda: (torch.lstm_cell, floats(2, 3), [floats(2, 4), floats(2, 4)], floats(16, 3), floats(16, 4)),
    "scaled_dot_product_attention": lambda: (functional.scaled_dot_product_attention, *[floats(2, 2, 3, 4)] * 3),
}
FLOAT32: dict[str, Callable[..., Any]] = {
    **{
        name: lambda name=name: (getattr(torch, name), floats(3, 4))
        for name in ("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal")
    },
    **{name: lambda name=name: (getattr(torch, name), floats(3, 4)) for name in ("rsqrt", "sinh", "tan")},
    "pow.Tensor_Scalar": lambda: (torch.pow, floats(3, 4), 3),
    "pow.Tensor_Tensor": lambda: (torch.pow, floats(3, 4), floats(3, 4)),
    "pow.Scalar": lambda: (torch.pow, 2, floats(3, 4)),
    "softplus": lambda: (functional.softplus, floats(3, 4)),
    "layer_norm": lambda: (functional.layer_norm, floats(3, 4), (4,), floats(4)),
    "native_layer_norm": lambda: (aten.native_layer_norm, floats(3, 4), [4], floats(4), None, 1e-5),
    "rms_norm": lambda: (functional.rms_norm, floats(3, 4), (4,), floats(4)),
    "group_norm": lambda: (functional.group_norm, floats(3, 4), 2),
    "frobenius_norm.dim": lambda: (aten.frobenius_norm.dim, floats(3, 4), [1]),
    "nuclear_norm": lambda: (aten.nuclear_norm, floats(3, 4)),
    "nuclear_norm.dim": lambda: (aten.nuclear_norm.dim, floats(3, 4), [0, 1]),
    "cosine_similarity": lambda: (functional.cosine_similarity, floats(3, 4), floats(3, 4)),
    "poisson_nll_loss": lambda: (functional.poisson_nll_loss, floats(3, 4), floats(3, 4)),
    "cosine_embedding_loss": lambda: (functional.cosine_embedding_loss, floats(3, 4), floats(3, 4), torch.ones(3)),
    "nll_loss": lambda: (functional.nll_loss, floats(3, 4), torch.tensor([1, 0, 3])),
    "nll_loss2d": lambda: (functional.nll_loss, floats(1, 3, 2, 2), torch.tensor([[[1, 0], [2, 2]]])),
    "hinge_embedding_loss": lambda: (functional.hinge_embedding_loss, floats(3, 4), torch.ones(3, 4)),
    "kl_div": lambda: (aten.kl_div, floats(3, 4), floats(3, 4)),
    "l1_loss": lambda: (functional.l1_loss, floats(3, 4), floats(3, 4)),
    "smooth_l1_loss": lambda: (functional.smooth_l1_loss, floats(3, 4), floats(3, 4)),
    "huber_loss": lambda: (functional.huber_loss, floats(3, 4), floats(3, 4)),
    "mse_loss": lambda: (functional.mse_loss, floats(3, 4), floats(3, 4)),
    "margin_ranking_loss": lambda: (functional.margin_ranking_loss, floats(3), floats(3), torch.ones(3)),
    "multilabel_margin_loss": lambda: (functional.multilabel_margin_loss, floats(2, 3), torch.tensor([[1, 0, -1]] * 2)),
    "soft_margin_loss": lambda: (functional.soft_margin_loss, floats(3, 4), torch.ones(3, 4)),
    "triplet_margin_loss": lambda: (functional.triplet_margin_loss, floats(3, 4), floats(3, 4), floats(3, 4)),
    "multi_margin_loss": lambda: (functional.multi_margin_loss, floats(3, 4), torch.tensor([1, 0, 3])),
    "binary_cross_entropy_with_logits": lambda: (
        functional.binary_cross_entropy_with_logits,
        torch.randn(3, 4),
        floats(3, 4),
    ),
    "dist": lambda: (torch.dist, floats(3, 4), floats(3, 4)),
    "pdist": lambda: (functional.pdist, floats(3, 4)),
    "cdist": lambda: (torch.cdist, floats(3, 4), floats(2, 4)),
    "renorm": lambda: (torch.renorm, floats(3, 4), 2, 0, 0.5),
    "logsumexp": lambda: (torch.logsumexp, floats(3, 4), 1),
    **{
        name: lambda name=name, sizes=sizes: (getattr(aten, name), floats(1, 2, *sizes), [2 * n for n in sizes])
        for name, sizes in {
            **{f"{prefix}nearest{exact}{n}d": (3,) * n
               for n in (1, 2, 3) for prefix, exact in (("upsample_", ""), ("_upsample_", "_exact"))},
        }.items()
    },
    **{
        name: lambda name=name, sizes=sizes: (getattr(aten, name), floats(1, 2, *sizes), [2 * n for n in sizes], False)
        for name, sizes in {
            "upsample_linear1d": (3,), "upsample_bilinear2d": (3, 4), "_upsample_bilinear2d_aa": (3, 4),
            "upsample_trilinear3d": (2, 3, 4), "upsample_bicubic2d": (3, 4), "_upsample_bicubic2d_aa": (3, 4),
        }.items()
    },
    "prod": lambda: (torch.prod, floats(3, 4)),
    "prod.dim_int": lambda: (torch.prod, floats(3, 4), 1),
    "softmax.int": lambda: (torch.softmax, floats(3, 4), 1),
    "log_softmax.int": lambda: (torch.log_softmax, floats(3, 4), 1),
    "cumprod": lambda: (torch.cumprod, floats(3, 4), 1),
    "cumsum": lambda: (torch.cumsum, floats(3, 4), 1),
    "linalg_vector_norm": lambda: (torch.linalg.vector_norm, floats(3, 4)),
    "linalg_matrix_norm": lambda: (aten.linalg_matrix_norm, floats(3, 4), 1),
    "linalg_matrix_norm.str_ord": lambda: (aten.linalg_matrix_norm.str_ord, floats(3, 4)),
    "sum": lambda: (torch.sum, floats(3, 4)),
    "sum.dim_IntList": lambda: (torch.sum, floats(3, 4), 1),
    "norm.Scalar": lambda: (aten.norm.Scalar, floats(3, 4)),
    "norm.ScalarOpt_dim": lambda: (aten.norm.ScalarOpt_dim, floats(3, 4), 2, [1]),
}  # fmt: skip
WIDEST: dict[str, Callable[..., Any]] = {
    "addcdiv": lambda: (torch.addcdiv, floats(3, 4), floats(3, 4), floats(3, 4)),
    "addcmul": lambda: (torch.addcmul, floats(3, 4), floats(3, 4), floats(3, 4)),
    "atan2": lambda: (torch.atan2, floats(3, 4), floats(3, 4)),
    "bilinear": lambda: (torch.bilinear, floats(3, 4), floats(3, 2), floats(5, 4, 2), None),
    "cross": lambda: (aten.cross, floats(4, 3), floats(4, 3), 1),
    "dot": lambda: (torch.dot, floats(3), floats(3)),
    "vdot": lambda: (torch.vdot, floats(3), floats(3)),
    "grid_sampler": lambda: (torch.grid_sampler, floats(1, 1, 3, 3), floats(1, 2, 2, 2), 0, 0, False),
    "index_put": lambda: (torch.index_put, floats(4), [torch.tensor([2, 0])], floats(2)),
    "tensordot": lambda: (aten.tensordot, floats(2, 3), floats(3, 4), [1], [0]),
    "scatter_add": lambda: (torch.scatter_add, floats(4), 0, torch.tensor([2, 0]), floats(2)),
}


def tensors(result: Any) -> list[Tensor]:
    return torch.utils._pytree.tree_leaves(result)


def rounded(value: Any, dtype: torch.dtype) -> Any:
    """Casts floating-point tensors to the dtype, as autocast does; leaves the rest as it is."""
    return torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor, value
    )


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("name", LOWER)
def test_lower_precision(name: str, half: torch.dtype) -> None:
    call, *arguments = LOWER[name]()
    with torch.autocast("openreg", dtype=half):
        actual = tensors(call(*on_device(arguments)))
    expected = tensors(call(*rounded(arguments, half)))
    assert [one.dtype for one in actual] == [half] * len(expected)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("name", FLOAT32)
def test_float32(name: str, half: torch.dtype) -> None:
    """The arguments are in half precision, so that the cast is visible: the result is computed in float32."""
    call, *arguments = FLOAT32[name]()
    arguments = rounded(arguments, half)
    with torch.autocast("openreg", dtype=half):
        actual = tensors(call(*on_device(arguments)))
    expected = tensors(call(*rounded(arguments, torch.float32)))
    assert [one.dtype for one in actual] == [torch.float32] * len(expected)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("name", WIDEST)
def test_widest(name: str, half: torch.dtype) -> None:
    """Half-precision arguments give a half-precision result; one float32 tensor makes it float32."""
    for first in (half, torch.float32):
        call, *arguments = WIDEST[name]()
        where = next(i for i, argument in enumerate(arguments) if isinstance(argument, Tensor))
        arguments = rounded(arguments, half)
        arguments[where] = arguments[where].to(first)
        with torch.autocast("openreg", dtype=half):
            actual = call(*on_device(arguments))
        assert actual.dtype == first
        expected = call(*rounded(arguments, torch.float32))
        tolerance = 2e-2 if first == half else 2e-5
        torch.testing.assert_close(actual.cpu().float(), expected, rtol=tolerance, atol=tolerance)


def test_every_registration_is_tested() -> None:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key(KEY)
    here = {f"aten::{name}" for name in [*LOWER, *FLOAT32, *WIDEST, "binary_cross_entropy"]}
    here |= {"aten::conv_transpose2d.input", "aten::conv_transpose3d.input"}  # the same call
    below = {"aten::_convolution", "aten::_convolution.deprecated", "aten::convolution"}  # what conv1d to 3d call
    below |= {"aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_gru_cell"}  # what the cells call
    below |= {"aten::_scaled_dot_product_flash_attention"}  # which has no kernel for the device
    here -= {"aten::conv_transpose2d", "aten::conv_transpose3d"}
    assert {name.removesuffix(".default") for name in registered} == here | below


def test_the_lists_are_those_of_another_accelerator() -> None:
    ours, theirs = (set(torch._C._dispatch_get_registrations_for_dispatch_key(key)) for key in (KEY, "AutocastXPU"))
    assert ours == theirs
    assert len(ours) == 117


def test_what_is_in_no_list_keeps_its_dtype() -> None:
    half, single = torch.ones(2, 2, device="openreg", dtype=torch.float16), torch.ones(2, 2, device="openreg")
    with torch.autocast("openreg"):
        assert (half + half).dtype == torch.float16
        assert (half + single).dtype == torch.float32
        assert functional.relu(single).dtype == torch.float32
        assert torch.mm(half, single).dtype == torch.float16
        # Out and in-place variants keep the dtype of the given tensor, and are in no list.
        out = torch.empty(2, 2, device="openreg")
        assert torch.mm(single, single, out=out).dtype == torch.float32
        assert single.clone().addmm_(single, single).dtype == torch.float32


def test_double_is_left_alone() -> None:
    double = torch.ones(2, 2, device="openreg", dtype=torch.float64)
    with torch.autocast("openreg"):
        assert torch.mm(double, double).dtype == torch.float64
        assert torch.exp(double).dtype == torch.float64


def test_tensors_elsewhere_are_left_alone() -> None:
    host = torch.ones(2, 2)
    with torch.autocast("openreg"):
        assert torch.mm(host, host).dtype == torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.mm(host, host).dtype == torch.bfloat16
            assert torch.mm(host.to("openreg"), host.to("openreg")).dtype == torch.float16


def test_nested_and_disabled() -> None:
    x = torch.ones(2, 2, device="openreg")

    def dtype() -> torch.dtype:
        return torch.mm(x, x).dtype

    with torch.autocast("openreg"):
        seen = [dtype()]
        with torch.autocast("openreg", dtype=torch.bfloat16):
            seen.append(dtype())
            with torch.autocast("openreg", enabled=False):
                seen.append(dtype())
            seen.append(dtype())
        seen.append(dtype())
        with contextlib.suppress(ZeroDivisionError), torch.autocast("openreg", enabled=False):
            seen.append(dtype())
            raise ZeroDivisionError
        seen.append(dtype())
    single, half, other = torch.float32, torch.float16, torch.bfloat16
    assert seen == [half, other, single, other, half, single, half]
    assert dtype() == single


def test_as_a_decorator() -> None:
    def product(x: Tensor) -> Tensor:
        return x @ x

    decorated = torch.autocast("openreg", dtype=torch.bfloat16)(product)
    assert decorated(torch.ones(2, 2, device="openreg")).dtype == torch.bfloat16


def test_it_is_a_state_of_the_thread() -> None:
    x, seen = torch.ones(2, 2, device="openreg"), []
    with torch.autocast("openreg"):
        thread = threading.Thread(target=lambda: seen.append(torch.mm(x, x).dtype))
        thread.start()
        thread.join()
    assert seen == [torch.float32]


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("cached", [True, False])
def test_a_weight_is_cast_once_in_a_region(cached: bool) -> None:
    layer, x = nn.Linear(4, 4, bias=False).to("openreg"), torch.randn(2, 4, device="openreg")
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile,
        torch.autocast("openreg", cache_enabled=cached),
    ):
        layer(layer(x.half()))
    assert sum(event.name == "aten::_to_copy" for event in profile.events()) - 1 == (1 if cached else 2)
    with torch.no_grad():
        layer.weight.zero_()  # the cast weight must not outlive its region
    with torch.autocast("openreg"):
        assert layer(x).count_nonzero() == 0


def test_gradients_arrive_in_the_dtype_of_the_weights() -> None:
    layers, x = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 1)), torch.randn(6, 4)
    device = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 1)).to("openreg")
    device.load_state_dict(layers.state_dict())
    layers(x).square().mean().backward()
    with torch.autocast("openreg", dtype=torch.bfloat16):
        output = device(x.to("openreg"))
        loss = functional.mse_loss(output, torch.zeros_like(output))
    assert (output.dtype, loss.dtype) == (torch.bfloat16, torch.float32)
    loss.backward()
    for here, there in zip(layers.parameters(), device.parameters(), strict=True):
        assert there.grad is not None
        assert there.grad.dtype == torch.float32
        torch.testing.assert_close(there.grad.cpu(), here.grad, rtol=0.1, atol=0.05)


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "images": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten()),
        torch.randn(4, 3, 8, 8),
    ),
    "lstm": lambda: (nn.LSTM(8, 4, batch_first=True), torch.randn(2, 5, 8)),
    "gru": lambda: (nn.GRU(8, 4, 2, batch_first=True), torch.randn(2, 5, 8)),
    "transformer": lambda: (nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), torch.randn(2, 5, 8)),
    "transformer in evaluation": lambda: (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
        torch.randn(2, 5, 8),
    ),
}


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, inside: bool, half: torch.dtype) -> None:
    model, x = MODELS[name]()
    device, _ = MODELS[name]()
    device.load_state_dict(model.state_dict())
    device.to("openreg")

    def output(module: nn.Module, x: Tensor) -> Tensor:
        result = module(x)
        first: Tensor = result[0] if isinstance(result, tuple) else result
        return first

    expected = output(model, x)
    weights = torch.linspace(-1, 1, expected.numel()).view(expected.shape)
    (expected * weights).sum().backward()
    with torch.no_grad(), torch.autocast("openreg", dtype=half):
        evaluated = output(device, x.to("openreg"))
    with torch.autocast("openreg", dtype=half):
        actual = output(device, x.to("openreg"))
        loss = (actual.float() * weights.to("openreg")).sum()
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    for result in (actual, evaluated):
        torch.testing.assert_close(result.cpu().float(), expected, rtol=0.05, atol=0.05)
    pairs = [(here.grad, there.grad) for here, there in zip(model.parameters(), device.parameters(), strict=True)]
    assert all(there is not None and there.dtype == torch.float32 for _, there in pairs)
    expected, actual = (torch.cat([gradient.cpu().flatten() for gradient in side]) for side in zip(*pairs, strict=True))
    assert (actual - expected).norm() / expected.norm() < (0.05 if half == torch.bfloat16 else 0.02)


def test_checkpointed_parts_run_in_the_same_dtype_again() -> None:
    layer, x = nn.Linear(4, 4).to("openreg"), torch.randn(2, 4, device="openreg", requires_grad=True)
    seen = []

    def part(x: Tensor) -> Tensor:
        y: Tensor = layer(x)
        seen.append(y.dtype)
        return y.exp()  # The second run stops once it has everything that the derivative needs.

    with torch.autocast("openreg", dtype=torch.bfloat16):
        y: Tensor = checkpoint(part, x, use_reentrant=False)
    y.sum().backward()
    assert seen == [torch.bfloat16] * 2


class Product(torch.autograd.Function):
    """A matrix product that records the dtypes of its forward and its backward."""

    seen: ClassVar[list[tuple[str, torch.dtype]]] = []

    @staticmethod
    @torch.amp.custom_fwd(device_type="openreg")  # type: ignore[untyped-decorator]
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        product = x.mm(y)
        Product.seen.append(("forward", product.dtype))
        return product

    @staticmethod
    @torch.amp.custom_bwd(device_type="openreg")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, y = ctx.saved_tensors
        of_x = gradient.mm(y.t())
        Product.seen.append(("backward", of_x.dtype))
        return of_x, x.t().mm(gradient)


class Float32Product(Product):
    """The same, always in float32."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="openreg", cast_inputs=torch.float32)  # type: ignore[untyped-decorator]
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        product: Tensor = Product.forward.__wrapped__(ctx, x, y)
        return product


@pytest.mark.parametrize(("function", "dtype"), [(Product, torch.bfloat16), (Float32Product, torch.float32)])
def test_custom_functions(function: type[torch.autograd.Function], dtype: torch.dtype) -> None:
    """The backward runs outside the region, with the autocast state of the forward."""
    Product.seen.clear()
    x, y = (torch.randn(2, 2).to("openreg").requires_grad_() for _ in range(2))
    with torch.autocast("openreg", dtype=torch.bfloat16):
        result = function.apply(x, y)
    result.float().sum().backward()
    assert Product.seen == [("forward", dtype), ("backward", dtype)]
    assert x.grad is not None
    torch.testing.assert_close(
        x.grad.cpu(), torch.ones(2, 2) @ y.detach().cpu().t(), rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=2e-2
    )


def test_an_operator_of_ones_own() -> None:
    with torch.library._scoped_library("openreg_test_amp", "FRAGMENT") as library:
        torch.library.define("openreg_test_amp::twice", "(Tensor x) -> Tensor", lib=library)
        torch.library.impl("openreg_test_amp::twice", "PrivateUse1", lambda x: x * 2, lib=library)
        torch.library.register_autocast("openreg_test_amp::twice", "openreg", torch.bfloat16, lib=library)
        x = torch.ones(2, device="openreg")
        with torch.autocast("openreg"):
            assert torch.ops.openreg_test_amp.twice(x).dtype == torch.bfloat16
        assert torch.ops.openreg_test_amp.twice(x).dtype == torch.float32


def _functions_that_take_functions() -> dict[str, Callable[[Tensor], Tensor]]:
    from torch._higher_order_ops.associative_scan import associative_scan
    from torch._higher_order_ops.map import map as map_rows
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.while_loop import while_loop

    return {
        "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: (x + 1) @ x, (x,)),
        "while_loop": lambda x: while_loop(lambda x: x.sum() < 100, lambda x: ((x @ x).float(),), (x,))[0],
        "map": lambda x: cast(Any, map_rows)(lambda row, matrix: matrix @ row, x, x + 1),
        "scan": lambda x: scan(lambda sum, row: (sum + row, x @ row), torch.zeros_like(x[0]), x)[1],
        "associative_scan": lambda x: associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic"),
        "checkpoint": lambda x: checkpoint(lambda x: (x @ x).sin(), x, use_reentrant=False),
    }


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, about these prototypes
@pytest.mark.parametrize("name", ["cond", "while_loop", "map", "scan", "associative_scan", "checkpoint"])
def test_operators_that_take_functions(name: str) -> None:
    """They are Python's, and pass autocast by another list than those of C++."""
    function, x = _functions_that_take_functions()[name], floats(3, 3) + 1
    torch.compiler.reset()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = function(x)
    with torch.autocast("openreg", dtype=torch.bfloat16):
        result = function(x.to("openreg"))
    assert result.dtype == expected.dtype
    torch.testing.assert_close(result.cpu(), expected, rtol=2e-2, atol=2e-2)


def test_supported_dtypes() -> None:
    assert torch.openreg.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    assert torch.get_autocast_dtype("openreg") == torch.float16
    x = torch.ones(2, 2, device="openreg")
    message = "In openreg autocast, but the target dtype is not supported. Disabling autocast."
    for dtype in (torch.float32, torch.float64, torch.int8):
        with pytest.warns(UserWarning, match=message), torch.autocast("openreg", dtype=dtype):
            assert torch.mm(x, x).dtype == torch.float32
    with warnings.catch_warnings(), torch.autocast("openreg", dtype=torch.float32, enabled=False):
        warnings.simplefilter("error")


def test_the_refused_loss() -> None:
    x = torch.full((2, 2), 0.5, device="openreg")
    message = "not safe inside torch.autocast: use binary_cross_entropy_with_logits"
    with torch.autocast("openreg"):
        with pytest.raises(NotImplementedError, match=message):
            functional.binary_cross_entropy(x, x)
        with torch.autocast("openreg", enabled=False):
            torch.testing.assert_close(functional.binary_cross_entropy(x, x).item(), 0.6931471824645996)
        assert functional.binary_cross_entropy_with_logits(x.half(), x).dtype == torch.float32
