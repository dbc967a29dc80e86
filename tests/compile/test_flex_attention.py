"""`torch.nn.attention.flex_attention`: values and derivatives, in compiled graphs and without, and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    flex_attention,
    noop_mask,
    or_masks,
)
from torch.utils.checkpoint import checkpoint

from tests import offers
from tests.offers import LAST_DEVICE

LENGTH = 20  # no multiple of a block
eagerly: Any = flex_attention


@pytest.fixture(autouse=True)
def prepared() -> Iterator[None]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        yield


def causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query >= key


def near(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return (query - key).abs() <= 3


def first_keys(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return key < 2


def documents(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query // 7 == key // 7


def nothing_for_some(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return (query != 3) & (key <= query)


MASKS: dict[str, Callable[..., Tensor]] = {
    "all": noop_mask,
    "causal": causal,
    "causal window": and_masks(causal, near),
    "window and first keys": or_masks(near, first_keys),
    "documents": documents,
    "a row without keys": nothing_for_some,
}


def distance(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return score - 0.1 * (head + 1) * (query - key).abs()


def capped(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return 2 * torch.tanh(score / 2)


def of_the_batch(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return score * (batch + 1)


CHANGES: dict[str, Callable[..., Tensor] | None] = {
    "none": None,
    "by distance": distance,
    "capped": capped,
    "by batch": of_the_batch,
}


def every_index(batch: int, heads: int, length: int, keys: int) -> tuple[Tensor, ...]:
    sizes = (batch, heads, length, keys)
    return tuple(
        torch.arange(size).view([-1 if at == each else 1 for at in range(4)]) for each, size in enumerate(sizes)
    )


def written_out(
    tensors: Sequence[Tensor],
    change: Callable[..., Tensor] | None = None,
    mask: Callable[..., Tensor] = noop_mask,
) -> tuple[Tensor, Tensor]:
    """The result and the logarithms of the sums, by the definition, on the CPU and in double precision."""
    query, key, value = (tensor.double() for tensor in tensors)
    groups = query.size(1) // key.size(1)
    key, value = (tensor.repeat_interleave(groups, 1) for tensor in (key, value))
    at = every_index(query.size(0), query.size(1), query.size(2), key.size(2))
    scores = query @ key.mT / query.size(-1) ** 0.5
    if change is not None:
        scores = change(scores, *at)
    scores = scores.masked_fill(~mask(*at), -torch.inf)
    is_empty = (scores == -torch.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(is_empty, 0).softmax(-1).masked_fill(is_empty, 0)
    sums = scores.masked_fill(is_empty, 0).logsumexp(-1).masked_fill(is_empty.squeeze(-1), -torch.inf)
    return weights @ value, sums


def drawn(batch: int = 2, heads: int = 4, kept_heads: int = 4, length: int = LENGTH, **options: Any) -> list[Tensor]:
    sizes = ((batch, heads, length, 8), (batch, kept_heads, LENGTH, 8), (batch, kept_heads, LENGTH, 6))
    return [torch.randn(size, **options) for size in sizes]


def moved(tensors: list[Tensor], device: str = LAST_DEVICE, dtype: torch.dtype | None = None) -> list[Tensor]:
    return [tensor.detach().to(device, dtype).requires_grad_() for tensor in tensors]


def blocks(mask: Callable[..., Tensor], length: int = LENGTH, device: str = LAST_DEVICE, **options: Any) -> BlockMask:
    return create_block_mask(mask, None, None, length, LENGTH, device=device, BLOCK_SIZE=8, **options)


@pytest.fixture(params=["compiled", "eager"])
def attend(request: pytest.FixtureRequest) -> Callable[..., Any]:
    if request.param == "eager":
        return flex_attention
    request.getfixturevalue("inductor")
    compiled: Callable[..., Any] = torch.compile(flex_attention, fullgraph=True)
    return compiled


def assert_same(
    attend: Callable[..., Any],
    tensors: list[Tensor],
    change: Callable[..., Tensor] | None = None,
    mask: Callable[..., Tensor] = noop_mask,
    **options: Any,
) -> None:
    """Asserts that results, logarithms and gradients are those of the definition."""
    ours, expected = moved(tensors), moved(tensors, "cpu")
    length = tensors[0].size(2)
    result, aux = attend(
        *ours, score_mod=change, block_mask=blocks(mask, length), return_aux=AuxRequest(lse=True), **options
    )
    reference, sums = written_out(expected, change, mask)
    assert result.device == torch.device(LAST_DEVICE)
    torch.testing.assert_close(result.cpu(), reference.to(result.dtype), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(aux.lse.cpu(), sums.float(), rtol=1e-4, atol=1e-5)
    weight, of_sums = torch.randn_like(reference), torch.randn_like(sums)
    is_there = sums.isfinite()
    ((result * weight.to(ours[0])).sum() + (aux.lse * of_sums.to(aux.lse))[is_there.to(LAST_DEVICE)].sum()).backward()
    ((reference * weight).sum() + (sums * of_sums)[is_there].sum()).backward()
    for given, wanted in zip(ours, expected, strict=True):
        assert given.grad is not None
        assert wanted.grad is not None
        assert given.grad.stride() == given.stride()
        torch.testing.assert_close(given.grad.cpu(), wanted.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("mask", MASKS)
def test_masks(attend: Callable[..., Any], mask: str) -> None:
    assert_same(attend, drawn(), mask=MASKS[mask])


def listed(full: bool, function: Callable[..., Tensor] | None, heads: int) -> tuple[BlockMask, Tensor]:
    """Blocks of a table that no function knows of, and the mask that they mean, on the CPU."""
    side = (LENGTH + 7) // 8
    partial = torch.rand(2, heads, side, side) < 0.5
    partial[..., 0] = True  # no row without keys
    whole = ~partial & (torch.rand(2, heads, side, side) < 0.5) if full else torch.zeros_like(partial)
    ordered = [
        (
            table.sum(-1).int().to(LAST_DEVICE),
            table.int().argsort(dim=-1, descending=True, stable=True).int().to(LAST_DEVICE),
        )
        for table in (partial, whole)
    ]
    tables: list[Any] = [*ordered[0], *(ordered[1] if full else (None, None)), 8, function, (LENGTH, LENGTH)]
    mask = BlockMask.from_kv_blocks(*tables)
    partial, whole = (table.repeat_interleave(8, 2).repeat_interleave(8, 3) for table in (partial, whole))
    at = every_index(2, heads, LENGTH, LENGTH)
    seen = partial[..., :LENGTH, :LENGTH] & (function or noop_mask)(*at) | whole[..., :LENGTH, :LENGTH]
    return mask, seen


@pytest.mark.long
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("function", [None, documents], ids=["no function", "documents"])
@pytest.mark.usefixtures("inductor")
def test_blocks_that_a_mask_lists(heads: int, full: bool, function: Callable[..., Tensor] | None) -> None:
    """Compiled, as on the CPU; in steps PyTorch asks the function alone."""
    tensors, (mask, seen) = drawn(), listed(full, function, heads)
    ours, expected = moved(tensors), moved(tensors, "cpu")
    attend: Any = torch.compile(flex_attention, fullgraph=True)
    result = attend(*ours, block_mask=mask)
    reference, _ = written_out(expected, None, lambda *_: seen)
    torch.testing.assert_close(result.cpu(), reference.float(), rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(result)
    (result * weight).sum().backward()
    (reference * weight.cpu()).sum().backward()
    for given, wanted in zip(ours, expected, strict=True):
        assert given.grad is not None
        torch.testing.assert_close(given.grad.cpu(), wanted.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
def test_changed_scores(attend: Callable[..., Any], change: str) -> None:
    assert_same(attend, drawn(), CHANGES[change], causal)


@pytest.mark.long
def test_heads_that_share_keys(attend: Callable[..., Any]) -> None:
    assert_same(attend, drawn(heads=6, kept_heads=2), distance, causal, enable_gqa=True)


@pytest.mark.long
def test_one_query_for_many_keys(attend: Callable[..., Any]) -> None:
    assert_same(attend, drawn(length=1), distance, first_keys)


@pytest.mark.long
def test_strides_of_a_projection(attend: Callable[..., Any]) -> None:
    """Queries, keys and values as layers have them: the heads beside each other in memory."""
    tensors = [torch.randn(2, LENGTH, 4, 8).transpose(1, 2) for _ in range(3)]
    assert_same(attend, tensors, distance, causal)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(attend: Callable[..., Any], dtype: torch.dtype) -> None:
    tensors = drawn(dtype=dtype)
    ours, expected = moved(tensors), moved(tensors, "cpu")
    result = attend(*ours, score_mod=distance, block_mask=blocks(causal))
    reference, _ = written_out(expected, distance, causal)
    assert result.dtype == dtype
    tolerance = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-9}[dtype]
    torch.testing.assert_close(result.cpu().double(), reference, rtol=tolerance, atol=tolerance)
    result.sum().backward()
    reference.sum().backward()
    for given, wanted in zip(ours, expected, strict=True):
        assert given.grad is not None
        assert wanted.grad is not None
        assert given.grad.dtype == dtype
        # The sums of compiled attention are float32 for every dtype.
        near = max(4 * tolerance, 1e-6)
        torch.testing.assert_close(given.grad.cpu(), wanted.grad, rtol=near, atol=near)


@pytest.mark.long
def test_a_learned_bias_and_a_table_that_is_not(attend: Callable[..., Any]) -> None:
    tensors, bias, table = drawn(), torch.randn(4, 2 * LENGTH), torch.randn(4)

    def changing(bias: Tensor, table: Tensor) -> Callable[..., Tensor]:
        def change(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return score * table[head] + bias[head, query - key + LENGTH]

        return change

    ours, our_bias = moved(tensors), bias.to(LAST_DEVICE).requires_grad_()
    result = attend(*ours, score_mod=changing(our_bias, table.to(LAST_DEVICE)), block_mask=blocks(causal))
    expected, its_bias = moved(tensors, "cpu"), bias.clone().requires_grad_()
    reference, _ = written_out(expected, changing(its_bias, table), causal)
    torch.testing.assert_close(result.cpu(), reference.float(), rtol=1e-4, atol=1e-5)
    result.sin().sum().backward()
    reference.sin().sum().backward()
    assert our_bias.grad is not None
    assert its_bias.grad is not None
    torch.testing.assert_close(our_bias.grad.cpu(), its_bias.grad, rtol=1e-3, atol=1e-4)
    assert expected[0].grad is not None
    assert ours[0].grad is not None
    torch.testing.assert_close(ours[0].grad.cpu(), expected[0].grad, rtol=1e-3, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("way", ["cpp_wrapper", "recomputed", "aot_eager", "openreg", "dynamic"])
@pytest.mark.usefixtures("inductor")
def test_other_ways_to_compile(way: str) -> None:
    options: dict[str, dict[str, Any]] = {
        "cpp_wrapper": {"options": {"cpp_wrapper": True}},
        "aot_eager": {"backend": "aot_eager"},
        "openreg": {"backend": "openreg"},
        "dynamic": {"dynamic": True},
    }

    def recomputed(*tensors: Tensor, **named: Any) -> Any:
        return checkpoint(lambda *given: eagerly(*given, **named), *tensors, use_reentrant=False)

    function = recomputed if way == "recomputed" else eagerly
    assert_same(torch.compile(function, **options.get(way, {})), drawn(), distance, causal)


@pytest.mark.long
def test_largest_scores(attend: Callable[..., Any]) -> None:
    query, key, value = drawn()
    with torch.no_grad():
        _result, aux = attend(
            *(tensor.to(LAST_DEVICE) for tensor in (query, key, value)),
            score_mod=distance,
            return_aux=AuxRequest(lse=True, max_scores=True),
        )
    scores = distance(query @ key.mT / 8**0.5, *every_index(2, 4, LENGTH, LENGTH))
    torch.testing.assert_close(aux.max_scores.cpu(), scores.amax(-1))
    torch.testing.assert_close(aux.lse.cpu(), scores.logsumexp(-1))


@pytest.mark.long
@pytest.mark.parametrize("is_enabled", [True, False])
def test_autocast(attend: Callable[..., Any], is_enabled: bool) -> None:
    tensors = drawn()
    ours = moved(tensors)
    with torch.autocast("openreg", dtype=torch.bfloat16, enabled=is_enabled):
        result = attend(*ours, block_mask=blocks(causal))
    assert result.dtype == (torch.bfloat16 if is_enabled else torch.float32)
    reference, _ = written_out(tensors, mask=causal)
    torch.testing.assert_close(result.cpu().double(), reference, rtol=3e-2, atol=3e-2)
    result.sum().backward()
    assert all(tensor.grad is not None and tensor.grad.dtype == torch.float32 for tensor in ours)


class Attention(nn.Module):
    """A layer with its own projections, and a bias by distance that it learns."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(32, 96)
        self.bias = nn.Parameter(torch.zeros(LENGTH))

    def forward(self, x: Tensor, mask: BlockMask) -> Tensor:
        query, key, value = self.mix(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)

        def change(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return score + self.bias[(query - key).abs()]

        attended = flex_attention(query, key, value, score_mod=change, block_mask=mask)
        assert isinstance(attended, Tensor)
        return attended.transpose(1, 2).flatten(2)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune-no-cudagraphs"])
@pytest.mark.usefixtures("inductor")
def test_training_a_layer(mode: str) -> None:
    x = torch.randn(2, LENGTH, 32)
    layers = {device: Attention().to(device) for device in ("cpu", LAST_DEVICE)}
    layers[LAST_DEVICE].load_state_dict(layers["cpu"].state_dict())
    losses: dict[str, list[float]] = {}
    for device, layer in layers.items():
        call: Any = layer
        if device != "cpu":
            call = torch.compile(layer, mode=mode, fullgraph=True)
        mask, inputs = blocks(causal, device=device), x.to(device)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
        losses[device] = []
        for _ in range(4):
            optimizer.zero_grad()
            attended = call(inputs, mask) if device != "cpu" else reference_layer(layer, inputs)
            loss = attended.square().mean()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    torch.testing.assert_close(losses[LAST_DEVICE], losses["cpu"], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(layers[LAST_DEVICE].bias.cpu(), layers["cpu"].bias, rtol=1e-3, atol=1e-6)


def reference_layer(layer: Attention, x: Tensor) -> Tensor:
    """What the layer computes, on the CPU: flex attention has no derivative there."""
    query, key, value = layer.mix(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
    at = torch.arange(LENGTH)
    scores = query @ key.mT / 8**0.5 + layer.bias[(at[:, None] - at).abs()]
    weights = scores.masked_fill(at[:, None] < at, -torch.inf).softmax(-1)
    attended: Tensor = (weights @ value).transpose(1, 2).flatten(2)
    return attended


@pytest.mark.long
@pytest.mark.usefixtures("inductor")
def test_sizes_that_change() -> None:
    attend: Any = torch.compile(flex_attention, fullgraph=True, dynamic=True)
    for length in (12, LENGTH, 33):
        tensors = [torch.randn(2, 4, length, 8) for _ in range(3)]
        on_device = [tensor.to(LAST_DEVICE) for tensor in tensors]
        mask = create_block_mask(causal, None, None, length, length, device=LAST_DEVICE)
        result = attend(*on_device, score_mod=distance, block_mask=mask)
        torch.testing.assert_close(
            result.cpu(), written_out(tensors, distance, causal)[0].float(), rtol=1e-4, atol=1e-5
        )


@pytest.mark.long
@pytest.mark.usefixtures("inductor")
def test_few_kernels_are_launched() -> None:
    tensors = [tensor.to(LAST_DEVICE) for tensor in drawn()]
    attend: Any = torch.compile(flex_attention, fullgraph=True)
    attend(*tensors, score_mod=distance)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.PrivateUse1]) as profiled:
        attend(*tensors, score_mod=distance)
        torch.openreg.synchronize()
    names = [event.name for event in profiled.events() if event.device_type == torch.profiler.DeviceType.PrivateUse1]
    assert sum("bmm" in name for name in names) == 2
    assert len(names) <= 5, names


@pytest.mark.usefixtures("inductor")
def test_what_is_compiled_for_the_cpu_is_left_alone() -> None:
    tensors = drawn()
    with torch.no_grad():
        result = torch.compile(eagerly)(*tensors, score_mod=distance)
    torch.testing.assert_close(result, written_out(tensors, distance)[0].float(), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("inductor")
def test_a_kernel_of_cuda_is_refused() -> None:
    tensors = [tensor.to(LAST_DEVICE) for tensor in drawn()]
    with pytest.raises(Exception, match=r"openreg: kernel_options=\{'BACKEND': 'FLASH'\} .* is a kernel of CUDA"):
        torch.compile(eagerly)(*tensors, kernel_options={"BACKEND": "FLASH"})


def test_a_mask_on_another_device_is_refused() -> None:
    offers.require("two devices")
    tensors = [tensor.to(LAST_DEVICE) for tensor in drawn()]
    with pytest.raises(RuntimeError, match="block_mask to be on the same device but got openreg:1 and openreg:0"):
        eagerly(*tensors, block_mask=blocks(causal, device="openreg:0"))


def test_other_devices_are_still_refused() -> None:
    tensors = [tensor.to("meta") for tensor in drawn()]
    with pytest.raises(ValueError, match=r"FlexAttention is only supported on .* meta device"):
        eagerly(*tensors)
