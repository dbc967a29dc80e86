"""How distributed tensors (DTensor) may split the operators of which PyTorch knows that for its own devices alone.

Called when a program has imported torch.distributed.tensor, on whatever thread does so.
"""

from __future__ import annotations

from typing import Any

from torch_openreg.compile.after_import import after_import


# LITERALINCLUDE START: attention-sharding
def _split(query: Any, key: Any, bias: Any) -> list[tuple[Any, Any, Any]]:
    """The placements that query, key and value may have, each with those of the logarithms of sums and of the mask.

    Attention is computed for each batch and head alone, so these may be split; positions may not. Tensors of three
    dimensions have no batch, but the logarithms have.
    """
    from torch.distributed.tensor import Replicate, Shard

    found: list[tuple[Any, Any, Any]] = [(Replicate(), Replicate(), Replicate())]
    has_batch = len(query.shape) > 3
    for dim in (0, 1) if has_batch else (0,):
        # Fewer heads of key than of query are shared by neighbors, which must stay on one rank.
        even = all(tensor.shape[dim] % query.mesh.size() == 0 for tensor in (query, key))
        if query.shape[dim] == key.shape[dim] or even:
            # A mask may have fewer dimensions, and one element for all batches or heads.
            of_mask = -1 if bias is None else dim + len(bias.shape) - len(query.shape)
            whole = of_mask < 0 or bias.shape[of_mask] == 1
            of_sums = Shard(dim if has_batch else dim + 1)
            found.append((Shard(dim), of_sums, Replicate() if whole else Shard(of_mask)))
    return found


def _register() -> None:
    import torch
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.experimental import register_sharding

    aten, seed = torch.ops.aten, Replicate()

    # Each placement is given for the results, then for the arguments; None stands for what is no tensor.
    @register_sharding(aten._scaled_dot_product_fused_attention_overrideable.default)  # type: ignore[untyped-decorator]
    def _forward(query: Any, key: Any, value: Any, bias: Any = None, *rest: Any, **options: Any) -> list[Any]:
        return [
            ([part, of_sums, None, None, None, None, seed, seed, None],
             [part, part, part, None if bias is None else mask, *[None] * len(rest)])
            for part, of_sums, mask in _split(query, key, bias)
        ]  # fmt: skip

    @register_sharding(aten._scaled_dot_product_fused_attention_overrideable_backward.default)  # type: ignore[untyped-decorator]
    def _backward(
        grad: Any, query: Any, key: Any, value: Any, bias: Any, needs: Any, out: Any, logsumexp: Any, *rest: Any,
        **options: Any,
    ) -> list[Any]:  # fmt: skip
        return [
            ([part, part, part, mask if bias is not None and needs[3] else None],
             [part, part, part, part, None if bias is None else mask, None, part, of_sums,
              *[seed if isinstance(argument, type(query)) else None for argument in rest]])
            for part, of_sums, mask in _split(query, key, bias)
            # The gradient of a mask that all ranks have is a sum over them, unless all have everything.
            if bias is None or not needs[3] or mask.is_replicate() == part.is_replicate()
        ]  # fmt: skip


# LITERALINCLUDE END: attention-sharding


def register_shardings() -> None:
    """Prepares the registration. To import torch.distributed.tensor takes as long as half an `import torch`."""
    after_import("torch.distributed.tensor", _register)
