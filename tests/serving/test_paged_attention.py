"""The kernels of the vLLM integration, which need no vLLM: a paged cache gives the attention of a contiguous one."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from torch_openreg.integrations._vllm import kernels

BLOCKS, SIZE, KV_HEADS, HEADS, WIDTH = 12, 4, 2, 6, 8
SCALE = WIDTH**-0.5
# The blocks of three requests, in no order, as an allocator has handed them out.
TABLE = torch.tensor([[7, 2, 9, 0], [3, 0, 0, 0], [11, 5, 1, 8]], dtype=torch.int32)
LENGTHS = [10, 3, 16]


def cache(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """As vLLM allocates it: block, slot, head, content in memory; the heads and the slots exchanged in the view."""
    memory = torch.full((BLOCKS, SIZE, KV_HEADS, 2 * WIDTH), 7.0, dtype=dtype)
    return memory.to("openreg").transpose(1, 2)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + shape[0])).to(dtype)


def slots_of(request: int, begin: int, end: int) -> torch.Tensor:
    return torch.tensor([int(TABLE[request, place // SIZE]) * SIZE + place % SIZE for place in range(begin, end)])


def test_the_slot_of_each_token_is_that_of_its_position() -> None:
    starts = torch.tensor([0, 1, 1, 6], dtype=torch.int32)  # the second request has no token in this batch
    positions = torch.tensor([9, 11, 12, 13, 14, 15])
    result = torch.empty(8, dtype=torch.int64, device="openreg")
    starts, positions, table = (tensor.to("openreg") for tensor in (starts, positions, TABLE))
    kernels.compute_slot_mapping(6, 8, starts, positions, table, 4, result, SIZE, 1, 0, 1, -1, 1024)
    expected = [*slots_of(0, 9, 10).tolist(), *slots_of(2, 11, 16).tolist(), -1, -1]
    assert result.tolist() == expected


def test_writing_changes_only_the_slots_of_the_tokens() -> None:
    kv_cache, key, value = cache(), numbers(5, KV_HEADS, WIDTH), numbers(5, KV_HEADS, WIDTH) + 1
    slots = torch.tensor([*slots_of(2, 2, 5).tolist(), -1])  # a padded token, and a key without a slot
    kernels.write(kv_cache, slots.to("openreg"), key.to("openreg"), value.to("openreg"))
    expected = torch.full((BLOCKS * SIZE, KV_HEADS, 2 * WIDTH), 7.0)
    expected[slots[:3]] = torch.cat((key, value), -1)[:3]
    found = kv_cache.transpose(1, 2).flatten(0, 1).cpu()
    torch.testing.assert_close(found[SIZE:], expected[SIZE:], rtol=0, atol=0)  # block 0 belongs to no request


def filled(dtype: torch.dtype) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
    """A cache with three requests, and their keys and values, each `[length, kv_heads, width]`."""
    kv_cache, contents = cache(dtype), []
    for request, length in enumerate(LENGTHS):
        key, value = (numbers(length, KV_HEADS, WIDTH, dtype=dtype) * factor for factor in (1, 2))
        kernels.write(kv_cache, slots_of(request, 0, length).to("openreg"), key.to("openreg"), value.to("openreg"))
        contents.append((key, value))
    return kv_cache, contents


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int | None = None) -> torch.Tensor:
    """On the CPU, in float64, over a contiguous request: `query` has its last tokens."""
    last = key.shape[0] - query.shape[0]
    mask = torch.ones(query.shape[0], key.shape[0], dtype=torch.bool).tril(last)
    if window is not None:
        mask = mask.triu(last - window + 1)
    query, key, value = (tensor.double().transpose(0, 1)[None] for tensor in (query, key, value))
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=SCALE, enable_gqa=True)[0].transpose(
        0, 1
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 5e-3), (torch.bfloat16, 3e-2)])
class TestAttention:
    def test_requests_with_one_token_each(self, dtype: torch.dtype, tolerance: float) -> None:
        kv_cache, contents = filled(dtype)
        query = numbers(3, HEADS, WIDTH, dtype=dtype)
        lengths = torch.tensor(LENGTHS, dtype=torch.int32, device="openreg")
        found = kernels.decode(query.to("openreg"), kv_cache, TABLE.to("openreg"), lengths, max(LENGTHS), SCALE)
        expected = torch.cat([attention(query[row : row + 1], *content) for row, content in enumerate(contents)])
        torch.testing.assert_close(found.cpu().double(), expected, rtol=tolerance, atol=tolerance)

    @pytest.mark.parametrize("tokens", [16, 5, 2])
    def test_the_last_tokens_of_a_request(self, dtype: torch.dtype, tolerance: float, tokens: int) -> None:
        kv_cache, contents = filled(dtype)
        query = numbers(tokens, HEADS, WIDTH, dtype=dtype)
        found = kernels.prefill(query.to("openreg"), kv_cache, TABLE[2:].to("openreg"), LENGTHS[2], SCALE)
        expected = attention(query, *contents[2])
        torch.testing.assert_close(found.cpu().double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("window", [1, 3, 16])
def test_a_token_sees_only_the_last_ones_within_a_window(window: int) -> None:
    kv_cache, contents = filled(torch.float32)
    table, query = TABLE.clone(), numbers(4, HEADS, WIDTH)
    if window == 3:
        table[2, :2] = 0  # vLLM has taken the blocks that none of these tokens sees
    found = kernels.prefill(query.to("openreg"), kv_cache, table[2:].to("openreg"), 16, SCALE, window)
    torch.testing.assert_close(found.cpu().double(), attention(query, *contents[2], window), rtol=1e-5, atol=1e-5)
    lengths = torch.tensor(LENGTHS, dtype=torch.int32, device="openreg")
    found = kernels.decode(query[:3].to("openreg"), kv_cache, table.to("openreg"), lengths, 16, SCALE, window)
    rows = [attention(query[row : row + 1], *content, window) for row, content in enumerate(contents)]
    torch.testing.assert_close(found.cpu().double(), torch.cat(rows), rtol=1e-5, atol=1e-5)


def test_nan_in_the_blocks_of_others_reaches_no_request() -> None:
    kv_cache, contents = filled(torch.float32)
    others = [0, 4, 6, 10]  # no block of the three requests
    kv_cache[others] = float("nan")
    table, query = TABLE.clone(), numbers(3, HEADS, WIDTH)
    table[0, 3], table[1, 1:] = 4, 6  # what earlier requests have left in the rows
    lengths = torch.tensor(LENGTHS, dtype=torch.int32, device="openreg")
    found = kernels.decode(query.to("openreg"), kv_cache, table.to("openreg"), lengths, 16, SCALE)
    rows = [attention(query[row : row + 1], *content) for row, content in enumerate(contents)]
    torch.testing.assert_close(found.cpu().double(), torch.cat(rows), rtol=1e-5, atol=1e-5)
    table[2, :2] = 10  # taken away behind a window
    found = kernels.prefill(query.to("openreg"), kv_cache, table[2:].to("openreg"), 16, SCALE, 3)
    torch.testing.assert_close(found.cpu().double(), attention(query, *contents[2], 3), rtol=1e-5, atol=1e-5)


@pytest.mark.needs("host kernels")
def test_nothing_runs_on_the_cpu_instead() -> None:
    kv_cache, _ = filled(torch.float32)
    torch.openreg.reset_fallback_stats()
    kernels.prefill(torch.ones(2, HEADS, WIDTH, device="openreg"), kv_cache, TABLE[2:].to("openreg"), 16, SCALE)
    lengths = torch.tensor(LENGTHS, dtype=torch.int32, device="openreg")
    kernels.decode(torch.ones(3, HEADS, WIDTH, device="openreg"), kv_cache, TABLE.to("openreg"), lengths, 16, SCALE)
    assert torch.openreg.fallback_stats() == {}
