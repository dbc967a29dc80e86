"""nn.MultiheadAttention and nn.TransformerEncoder compared with the CPU, in training and on PyTorch's fast path."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

CAUSAL = torch.ones(5, 5).triu(1).bool()
PADDING = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
MASKS = {
    "none": None,
    "bool": CAUSAL,
    "additive": torch.zeros(5, 5).masked_fill(CAUSAL, -torch.inf),
    "numbers": torch.linspace(-1, 1, 25).reshape(5, 5),
}

pytestmark = [
    pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask and attn_mask is deprecated"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),  # with norm_first it has no effect
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage"),  # the CPU makes one
]


def on(device: str, value: Any) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value


def both(module: nn.Module, *inputs: Tensor, **options: Any) -> list[Any]:
    """What the module returns on the device and on the CPU, without gradients."""
    with torch.no_grad():
        return [
            copy.deepcopy(module).to(device)(
                *([on(device, inputs[0])] * len(inputs)), **{name: on(device, value) for name, value in options.items()}
            )
            for device in ("openreg", "cpu")
        ]


def close(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected, check_device=False, rtol=1e-4, atol=1e-5)


def called(function: Any) -> set[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function()
    return {event.name for event in profile.events()}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("average", [True, False], ids=["average", "each head"])
@pytest.mark.parametrize("need_weights", [True, False], ids=["weights", "no weights"])
@pytest.mark.parametrize("padding", [PADDING, None], ids=["padding", "no padding"])
@pytest.mark.parametrize("mask", MASKS)
def test_multihead_attention(mask: str, padding: Tensor | None, need_weights: bool, average: bool) -> None:
    module, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(2, 5, 8)
    torch.openreg.reset_fallback_stats()
    actual, expected = both(
        module,
        *(x, x, x),
        attn_mask=MASKS[mask],
        key_padding_mask=padding,
        need_weights=need_weights,
        average_attn_weights=average,
    )
    assert torch.openreg.fallback_stats() == {}
    close(actual, expected)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("padding", [PADDING, None], ids=["padding", "no padding"])
@pytest.mark.parametrize("mask", ["none", "bool"])
def test_encoder(mask: str, padding: Tensor | None, activation: str, norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation=activation, norm_first=norm_first)
    module, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 8)
    actual, expected = both(module, x, mask=MASKS[mask], src_key_padding_mask=padding)
    seen = slice(None) if padding is None else ~padding  # in the padding, the CPU's nested tensor leaves zeros
    close(actual.cpu()[seen], expected[seen])


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("need_weights", [True, False])
def test_scores_that_half_precision_cannot_hold_before_they_are_scaled(need_weights: bool) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(64, 2, dtype=torch.float16, batch_first=True).eval()
    x = (torch.randn(2, 8, 64) * 200).half()
    with torch.no_grad():
        expected, expected_weights = copy.deepcopy(module).float()(*[x.float()] * 3, need_weights=need_weights)
        there, weights = module.to("openreg")(*[x.to("openreg")] * 3, need_weights=need_weights)
    torch.testing.assert_close(there.cpu().float(), expected, rtol=2e-3, atol=0.3)  # the largest is 306
    assert (weights is None) == (not need_weights)
    if need_weights:
        torch.testing.assert_close(weights.cpu().float(), expected_weights, rtol=1e-3, atol=1e-3)


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_the_fast_path_is_taken_and_stays_on_the_device(dtype: torch.dtype) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dtype=dtype, device="openreg").eval()
    x = torch.randn(2, 5, 8, dtype=dtype, device="openreg")
    torch.openreg.reset_fallback_stats()
    with torch.no_grad():
        names = called(lambda: layer(x))
    assert "aten::_transformer_encoder_layer_fwd" in names
    assert "aten::_scaled_dot_product_fused_attention_overrideable" in names
    assert torch.openreg.fallback_stats() == {}


def test_what_an_encoder_returns_at_hidden_positions() -> None:
    """The CPU packs the batch and fills up with zeros; the device computes what the mask hides, as training does."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    there, here = both(nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 8), src_key_padding_mask=PADDING)
    close(there.cpu()[~PADDING], here[~PADDING])
    assert not here[PADDING].any()
    assert there.cpu()[PADDING].all()


def test_sizes_that_do_not_fit() -> None:
    x = torch.ones(2, 5, 8, device="openreg")
    weight, bias = torch.ones(24, 8, device="openreg"), torch.ones(24, device="openreg")
    for wrong, heads in ((x[0], 2), (x[..., 1:], 2), (x, 3), (x, 0)):
        with pytest.raises(RuntimeError, match=r"expects \[batch, length, 8\] for . heads that divide the last size"):
            torch._native_multi_head_attention(wrong, wrong, wrong, 8, heads, weight, bias, weight[:8], bias[:8])
    for rows, biases in ((weight[:4], bias), (weight, bias[:1]), (weight[0], bias), (weight, bias[None])):
        with pytest.raises(RuntimeError, match="expects weights of 24 rows and as many biases, got"):
            torch._native_multi_head_attention(x, x, x, 8, 2, rows, biases, weight[:8], bias[:8])


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_gradients(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0).train(training)
    x, mask = torch.randn(2, 5, 8), nn.Transformer.generate_square_subsequent_mask(5)
    found = []
    for device in ("openreg", "cpu"):
        module, leaf = copy.deepcopy(layer).to(device), x.detach().to(device).requires_grad_()
        output = module(leaf, src_mask=mask.to(device))
        output.square().sum().backward()
        found.append([output, leaf.grad, *(parameter.grad for parameter in module.parameters())])
    close(*found)


def test_the_whole_transformer() -> None:
    module = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    source, target = torch.randn(2, 5, 8), torch.randn(2, 4, 8)
    expected = module(source, target)
    close(module.to("openreg")(source.to("openreg"), target.to("openreg")), expected)


def test_numbers_are_added_to_the_scores_in_evaluation_too() -> None:
    """PyTorch's kernels take them for true there, and the results of one layer depend on its mode."""
    places = torch.arange(5.0)
    bias = -(places[:, None] - places).abs()  # as in ALiBi
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        expected = copy.deepcopy(layer).train()(x, src_mask=bias)
        layer.to("openreg")
        for mode in (True, False):
            torch.testing.assert_close(layer.train(mode)(x.to("openreg"), src_mask=bias.to("openreg")).cpu(), expected)
