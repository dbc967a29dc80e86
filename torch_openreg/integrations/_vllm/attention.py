"""The attention backend: three classes through which vLLM reaches the kernels.

vLLM creates a `PagedMetadataBuilder` for the model and a `PagedAttention` for each layer, and calls them in each step,
on the thread of the worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionImpl,
    AttentionMetadata,
    AttentionMetadataBuilder,
    AttentionType,
    CommonAttentionMetadata,
)
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
from vllm.v1.attention.backends.utils import split_decodes_and_prefills
from vllm.v1.kv_cache_layout import KVCacheLayout

from torch_openreg.integrations._vllm import kernels

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.kv_cache_interface import AttentionSpec


# LITERALINCLUDE START: vllm-backend
@register_backend(AttentionBackendEnum.CUSTOM)
class PagedAttentionBackend(AttentionBackend):
    """What vLLM must know before it creates a layer: data types, the layout of the cache, and the other two classes."""

    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.bfloat16, torch.float16, torch.float32]
    # The data type of the cache is the model's; a quantized one would be "fp8".
    supported_kv_cache_dtypes: ClassVar[list[Any]] = ["auto"]
    # vLLM calls do_kv_cache_update() before forward().
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name() -> str:
        """One of the names in vLLM's list; `CUSTOM` is the one for backends of others."""
        return "CUSTOM"  # NOT PROVEN: needs vLLM

    @staticmethod
    def get_impl_cls() -> type[PagedAttention]:
        """The class of which each layer gets an object."""
        return PagedAttention  # NOT PROVEN: needs vLLM

    @staticmethod
    def get_builder_cls() -> type[PagedMetadataBuilder]:
        """The class that describes each batch."""
        return PagedMetadataBuilder  # NOT PROVEN: needs vLLM

    @classmethod
    def supports_sliding_window(cls) -> bool:
        """Layers in which a token sees only the last ones."""
        return True  # NOT PROVEN: needs vLLM

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[KVCacheLayout, ...]:
        """Layer, block, token, head, content: in memory, the slots of a layer follow each other."""
        return (KVCacheLayout.LBNHC,)  # NOT PROVEN: needs vLLM


# LITERALINCLUDE END: vllm-backend


# LITERALINCLUDE START: vllm-metadata
@dataclass
class PagedMetadata(AttentionMetadata):
    """One batch. Requests that decode, one token each, come first; then those with several tokens of their prompt."""

    decodes: int
    """How many requests decode."""
    longest: int
    """The longest of these, in tokens."""
    prefills: list[tuple[int, int, int]]
    """Of each other request: where its tokens begin in the batch, where they end, and its length."""
    lengths: torch.Tensor
    """Of all requests, with the tokens of this batch; on the device."""
    blocks: torch.Tensor
    """The blocks of each request, a row for each; on the device."""


# LITERALINCLUDE END: vllm-metadata


# LITERALINCLUDE START: vllm-builder
class PagedMetadataBuilder(AttentionMetadataBuilder[PagedMetadata]):
    """Describes a batch, once for all layers."""

    # The longest request, in tokens of this batch, that vLLM moves to the front.
    reorder_batch_threshold = 1

    def __init__(
        self, kv_cache_spec: AttentionSpec, layer_names: list[str], vllm_config: VllmConfig, device: torch.device
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)  # NOT PROVEN: needs vLLM

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> PagedMetadata:
        """Takes from vLLM's description of the batch what attention needs."""
        batch = common_attn_metadata  # NOT PROVEN: needs vLLM
        decodes, *_ = split_decodes_and_prefills(batch, decode_threshold=1)  # NOT PROVEN: needs vLLM
        # An upper bound only where tokens are drafted before they are known, which the platform refuses.
        lengths = batch.seq_lens_cpu_upper_bound.tolist()  # NOT PROVEN: needs vLLM
        starts = batch.query_start_loc_cpu.tolist()  # NOT PROVEN: needs vLLM
        return PagedMetadata(  # NOT PROVEN: needs vLLM
            decodes=decodes,
            longest=max(lengths[:decodes], default=0),
            prefills=list(zip(starts[decodes:-1], starts[decodes + 1 :], lengths[decodes:], strict=True)),
            lengths=batch.seq_lens,
            blocks=batch.block_table_tensor,
        )


# LITERALINCLUDE END: vllm-builder


# LITERALINCLUDE START: vllm-layer
class PagedAttention(AttentionImpl[PagedMetadata]):
    """Attention of one layer."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
    ) -> None:
        # vLLM asks the backend about all else that this lacks.
        if alibi_slopes is not None or logits_soft_cap:  # NOT PROVEN: needs vLLM
            raise NotImplementedError("openreg: attention has no ALiBi and no soft cap")  # NOT PROVEN: needs vLLM
        self.num_heads, self.head_size, self.scale = num_heads, head_size, scale  # NOT PROVEN: needs vLLM
        self.num_kv_heads = num_kv_heads or num_heads  # NOT PROVEN: needs vLLM
        self.window, self.kv_cache_dtype = sliding_window, kv_cache_dtype  # NOT PROVEN: needs vLLM

    def do_kv_cache_update(
        self,
        layer: torch.nn.Module,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Writes the tokens of a batch into the cache of the layer."""
        kernels.write(kv_cache, slot_mapping, key, value)  # NOT PROVEN: needs vLLM

    # LITERALINCLUDE END: vllm-layer

    # LITERALINCLUDE START: vllm-forward
    def forward(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: PagedMetadata | None,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Computes attention of all tokens of a batch, each over its own request, into `output`.

        `query` and `output` are `[tokens, heads, head_size]`. Keys and values are read from the cache. The scales are
        for results that are quantized, which the platform refuses.
        """
        batch = attn_metadata  # NOT PROVEN: needs vLLM
        if batch is None:  # NOT PROVEN: needs vLLM
            # vLLM measures how much memory a step needs; there is no cache yet.
            return output.zero_()  # NOT PROVEN: needs vLLM
        count = batch.decodes  # NOT PROVEN: needs vLLM
        if count:  # NOT PROVEN: needs vLLM
            blocks, lengths = batch.blocks[:count], batch.lengths[:count]  # NOT PROVEN: needs vLLM
            output[:count] = kernels.decode(  # NOT PROVEN: needs vLLM
                query[:count], kv_cache, blocks, lengths, batch.longest, self.scale, self.window
            )
        for row, (begin, end, length) in enumerate(batch.prefills, count):  # NOT PROVEN: needs vLLM
            output[begin:end] = kernels.prefill(  # NOT PROVEN: needs vLLM
                query[begin:end], kv_cache, batch.blocks[row : row + 1], length, self.scale, self.window
            )
        return output  # NOT PROVEN: needs vLLM

    # LITERALINCLUDE END: vllm-forward
