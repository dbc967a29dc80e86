"""What runs on the device: the slot of each token, writing into the cache, attention over it. Nothing here needs vLLM.

Each of these is a kernel in a finished backend. Here they are operators that every device has: `index_copy_`,
`index_select`, attention. Lengths that Python needs are arguments, so nothing waits for the device.
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention


# LITERALINCLUDE START: vllm-slots
def compute_slot_mapping(
    num_tokens: int,
    max_num_tokens: int,
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    block_table_stride: int,
    slot_mapping: torch.Tensor,
    block_size: int,
    ranks: int,
    rank: int,
    interleave: int,
    pad: int,
    launch_size: int,
) -> None:
    """Computes which slot of the cache each token of the batch goes to. vLLM calls this once for each step.

    Args:
        num_tokens: how many tokens the batch has.
        max_num_tokens: how many elements `slot_mapping` has.
        query_start_loc: where the tokens of each request begin, and where those of the last one end; int32.
        positions: of each token in its request, from 0; int64.
        block_table: the blocks of each request, one row for each; int32.
        block_table_stride: the length of a row.
        slot_mapping: the result; int64. Elements after the tokens become `pad`.
        block_size: how many slots a block has.
        ranks: how many processes share the tokens of a request; the platform refuses more than one.
        rank: which of them this is.
        interleave: how many consecutive tokens each of them has.
        pad: what marks a token that has no slot.
        launch_size: how many tokens one program of the Triton kernel computes.
    """
    # A one where each request but the first begins; their sum so far is the row of a token.
    begins = query_start_loc[1:-1]
    steps = torch.zeros(num_tokens + 1, dtype=torch.int32, device=positions.device)
    rows = steps.index_add_(0, begins, torch.ones_like(begins)).cumsum(0)[:num_tokens]
    positions = positions[:num_tokens]
    blocks = block_table[rows, positions // block_size].long()
    slot_mapping[:num_tokens] = blocks * block_size + positions % block_size
    slot_mapping[num_tokens:max_num_tokens].fill_(pad)


# LITERALINCLUDE END: vllm-slots


# LITERALINCLUDE START: vllm-write
def write(kv_cache: torch.Tensor, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    """Writes the keys and values of tokens into their slots.

    Args:
        kv_cache: `[blocks, kv_heads, block_size, 2 * head_size]`; in memory, slots come before heads.
        slots: of each token, int64. A negative one is padding.
        key: `[tokens, kv_heads, head_size]`; tokens beyond those of `slots` are padding too.
        value: of the same shape.
    """
    tokens = slots.shape[0]
    # A view, which raises if the cache has another layout: a copy would be written, and lost.
    places = kv_cache.transpose(1, 2).view(-1, kv_cache.shape[1], kv_cache.shape[3])
    # Padding goes to block 0, which vLLM gives to no request: leaving it out would take a number that only the device
    # knows.
    places.index_copy_(0, slots.clamp(min=0), torch.cat((key[:tokens], value[:tokens]), -1))


# LITERALINCLUDE END: vllm-write


# LITERALINCLUDE START: vllm-decode
def decode(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    blocks: torch.Tensor,
    lengths: torch.Tensor,
    longest: int,
    scale: float,
    window: int | None = None,
) -> torch.Tensor:
    """Attention of requests with one token each, all at once: each is padded to the longest.

    Args:
        query: `[requests, heads, head_size]`, as is the result.
        kv_cache: see `write`; the tokens themselves are in it.
        blocks: the blocks of each request, one row for each; int32.
        lengths: how many tokens each request has, with this one.
        longest: the largest of these.
        scale: of the products of queries and keys.
        window: how many tokens each token sees, with itself; None for all. The blocks of others may be block 0.
    """
    places, ends = torch.arange(longest, device=query.device), lengths[:, None]
    mask = places < ends
    if window is not None:
        mask &= places >= ends - window
    keys, values = _gather(kv_cache, blocks, mask)
    result = scaled_dot_product_attention(
        query[:, :, None], keys, values, attn_mask=mask[:, None, None], scale=scale, enable_gqa=True
    )
    return result[:, :, 0]


# LITERALINCLUDE END: vllm-decode


# LITERALINCLUDE START: vllm-prefill
def prefill(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    blocks: torch.Tensor,
    length: int,
    scale: float,
    window: int | None = None,
) -> torch.Tensor:
    """Attention of the last tokens of one request, each over the request up to itself.

    Args:
        query: `[tokens, heads, head_size]`, as is the result. Earlier tokens of the request are in the cache only.
        kv_cache: see `write`; the tokens themselves are in it.
        blocks: the blocks of the request, `[1, blocks]`; int32.
        length: how many tokens the request has, with these.
        scale: of the products of queries and keys.
        window: see `decode`.
    """
    places = torch.arange(length, device=query.device)
    own = places[length - query.shape[0] :, None]
    # Not is_causal=True: it takes the first of these tokens for the first of the request.
    mask = places <= own
    if window is not None:
        mask &= places > own - window
    keys, values = _gather(kv_cache, blocks, mask.any(0, keepdim=True))
    result = scaled_dot_product_attention(
        query.transpose(0, 1)[None], keys, values, attn_mask=mask, scale=scale, enable_gqa=True
    )
    return result[0].transpose(0, 1)


# LITERALINCLUDE END: vllm-prefill


# LITERALINCLUDE START: vllm-gather
def _gather(kv_cache: torch.Tensor, blocks: torch.Tensor, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The keys and values of each request, in the order of its tokens: `[requests, kv_heads, length, head_size]`.

    `seen` is `[requests, length]`: whether a token is read. Others may be of another request, and NaN.
    """
    length = seen.shape[1]
    count = -(-length // kv_cache.shape[2])  # the rest of a row belongs to nobody
    found = kv_cache.transpose(1, 2).index_select(0, blocks[:, :count].flatten())
    found = found.reshape(blocks.shape[0], -1, *found.shape[2:])[:, :length].transpose(1, 2)
    # The weight of a token that is not seen is 0, and 0 times NaN is NaN.
    keys, values = found.masked_fill(~seen[:, None, :, None], 0).chunk(2, -1)
    return keys, values


# LITERALINCLUDE END: vllm-gather
