"""A paged cache without an engine: three requests, and attention over their blocks as over contiguous memory."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from torch_openreg.integrations._vllm import kernels

torch.manual_seed(0)
# LITERALINCLUDE START: serving-slots
BLOCKS, SIZE, HEADS, KV_HEADS, WIDTH = 8, 4, 4, 2, 8
memory = torch.zeros(BLOCKS, SIZE, KV_HEADS, 2 * WIDTH, device="openreg")
kv_cache = memory.transpose(1, 2)  # as vLLM passes it
# The blocks of each request, a row for each. The third request has not begun.
table = torch.tensor([[5, 2, 7], [3, 1, 0], [6, 0, 0]], dtype=torch.int32)


def slots_of(tokens: list[int], positions: list[int]) -> torch.Tensor:
    """The slots of a batch with so many tokens of each request, at these positions of it."""
    starts = torch.tensor([0, *tokens], device="openreg").cumsum(0).int()
    slots = torch.empty(len(positions), dtype=torch.int64, device="openreg")
    kernels.compute_slot_mapping(
        len(positions), len(positions), starts, torch.tensor(positions, device="openreg"), table.to("openreg"),
        table.shape[1], slots, SIZE, 1, 0, 1, -1, 1024,
    )  # fmt: skip
    return slots


print("slots:", slots_of([10, 5, 0], [*range(10), *range(5)]).tolist())
# LITERALINCLUDE END: serving-slots

# LITERALINCLUDE START: serving-steps
keys, values = torch.randn(2, 3, 12, KV_HEADS, WIDTH)  # of three requests; written as they come
queries = torch.randn(3, 12, HEADS, WIDTH)
scale = WIDTH**-0.5


def write(request: int, begin: int, end: int) -> None:
    """Writes some tokens of one request."""
    counts = [end - begin if row == request else 0 for row in range(3)]
    slots = slots_of(counts, list(range(begin, end)))
    given = (tensor[request, begin:end].to("openreg") for tensor in (keys, values))
    kernels.write(kv_cache, slots, *given)


def whole(request: int, begin: int, end: int, window: int | None) -> torch.Tensor:
    """Attention of these tokens on the CPU, over the request as contiguous memory."""
    query, key, value = (tensor[request, :end].transpose(0, 1) for tensor in (queries, keys, values))
    mask = torch.ones(end, end, dtype=torch.bool).tril()
    mask = mask if window is None else mask.triu(1 - window)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True).transpose(0, 1)[begin:]


for request, end in ((0, 10), (1, 5), (2, 3)):
    write(request, 0, end)
# One step: requests 0 and 1 decode their last token, request 2 has the last two of its prompt.
lengths = torch.tensor([10, 5], dtype=torch.int32, device="openreg")
query = torch.stack((queries[0, 9], queries[1, 4])).to("openreg")
for window in (None, 2):
    decoded = kernels.decode(query, kv_cache, table[:2].to("openreg"), lengths, 10, scale, window)
    filled = kernels.prefill(queries[2, 1:3].to("openreg"), kv_cache, table[2:].to("openreg"), 3, scale, window)
    expected = torch.cat((whole(0, 9, 10, window), whole(1, 4, 5, window), whole(2, 1, 3, window)))
    same = torch.allclose(torch.cat((decoded, filled)).cpu(), expected, atol=1e-6)
    print(f"as contiguous, with window {window}: {same}")
print("padding goes to block 0:", end=" ")
kernels.write(kv_cache, torch.tensor([-1], device="openreg"), *torch.ones(2, 1, KV_HEADS, WIDTH, device="openreg"))
print(memory[0, 0].sum().item() == 2 * KV_HEADS * WIDTH)
# LITERALINCLUDE END: serving-steps
