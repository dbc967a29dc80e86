"""Flex attention in compiled graphs: where PyTorch has a template for each device of a list, here is its formula.

`torch.nn.attention.flex_attention` takes functions that change scores or mask them. PyTorch compiles it into one
operator, with the functions as graphs inside, and Inductor has templates of that operator for CUDA, XPU, MPS and the
CPU. PyTorch also has the formula, for programs that it does not compile. A pass over the graph puts the formula there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import (
    flex_attention,
    flex_attention_backward,
    sdpa_dense,
    sdpa_dense_backward,
)
from torch._inductor.custom_graph_pass import CustomGraphModulePass, get_hash_for_files
from torch._inductor.pattern_matcher import CallFunctionVarArgs, Match, PatternMatcherPass, register_graph_pattern
from torch.fx import GraphModule, Interpreter, Node
from torch.nn.attention.flex_attention import _LARGE_SPARSE_BLOCK_SIZE
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten


# LITERALINCLUDE START: flex-pass
class ComposedFlexAttention(CustomGraphModulePass):
    """Replaces each flex attention of a graph, and each of its derivatives, by the operators of PyTorch's formula.

    Inductor runs it on each graph with operators of the device, before it lowers the graph.
    """

    def uuid(self) -> bytes:
        """Part of the key of each cached graph."""
        return get_hash_for_files((__file__,))

    def __call__(self, gm: GraphModule) -> None:
        """Raises: NotImplementedError, for options that ask for a kernel of another device."""
        patterns = PatternMatcherPass()
        for operator, formula in ((flex_attention, _forward), (flex_attention_backward, _backward)):
            pattern = CallFunctionVarArgs(operator)
            register_graph_pattern(pattern, pass_dict=patterns)(functools.partial(_compose, gm, formula))
        if patterns.apply(gm.graph):
            gm.recompile()


def _compose(gm: GraphModule, formula: Callable[..., Any], match: Match, *args: Any, **kwargs: Any) -> None:
    node = match.output_node()
    device = args[0].meta["val"].device
    if device.type != "openreg":
        return
    leaves, structure = tree_flatten((node.args, node.kwargs))
    # Functions are graphs inside this one, and so no inputs of what takes the place of the node.
    given = [leaf if (graph := _graph(gm, leaf)) is None else _Function(graph) for leaf in leaves]
    at = [position for position, leaf in enumerate(given) if isinstance(leaf, Node)]

    def composed(*inputs: Any) -> Any:
        values = list(given)
        for position, value in zip(at, inputs, strict=True):
            values[position] = value
        args, kwargs = tree_unflatten(values, structure)
        with _NumbersInTheGraph(device):
            return formula(*args, **kwargs)

    match.replace_by_example(composed, [given[position] for position in at])


def _graph(gm: GraphModule, leaf: Any) -> GraphModule | None:
    named = getattr(gm, str(leaf.target)) if isinstance(leaf, Node) and leaf.op == "get_attr" else None
    return named if isinstance(named, GraphModule) else None


# LITERALINCLUDE END: flex-pass


# LITERALINCLUDE START: flex-formula
def _forward(*args: Any) -> Any:
    _query, key, _value, _score, blocks, _scale, options, _buffers, _buffers_of_mask = args
    if options.get("BACKEND") == "FLASH":  # its logarithms have another base, so no other kernel can take its place
        raise NotImplementedError(
            "openreg: kernel_options={'BACKEND': 'FLASH'} of flex_attention is a kernel of CUDA: leave it out"
        )
    given = [*args]
    given[4] = _with_blocks(blocks, key)
    result, *statistics = sdpa_dense(*given)
    # The operator declares float32, and what was compiled behind it reads that. The formula keeps float64.
    return result, *(each.to(torch.float32) for each in statistics)


def _backward(*args: Any) -> Any:
    _query, key, *_, derivative, blocks, _scale, _options, buffers, _buffers_of_mask = args
    # It returns a gradient for the score, none for four indices, and one for each buffer that is learned.
    grads = derivative.graph.output_node().args[0][5:]
    with _learned(buffer for buffer, grad in zip(buffers, grads, strict=True) if grad is not None):
        given = [*args]
        given[-5] = _with_blocks(blocks, key)
        return sdpa_dense_backward(*given)


def _with_blocks(blocks: tuple[Any, ...], key: Tensor) -> tuple[Any, ...]:
    """The argument `block_mask`, with a function that also asks which blocks it lists.

    The formula asks the function alone, as PyTorch does in steps. A template visits the blocks that are listed: all of
    a full one, and of the others what the function allows.
    """
    _, _, *listed, query_size, key_size, mask = blocks
    if key_size == _LARGE_SPARSE_BLOCK_SIZE:  # what stands for no block mask: one block for all
        return blocks
    columns = (key.shape[-2] + key_size - 1) // key_size
    partial = _table(listed[0], listed[1], columns)
    full = None if listed[2] is None else _table(listed[2], listed[3], columns)

    def is_seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor, *buffers: Any) -> Tensor:
        one_for_all = (size == 1 for size in partial.shape[:2])
        batch_of_blocks, head_of_blocks = (
            0 * at if one else at for at, one in zip((batch, head), one_for_all, strict=True)
        )
        at = (batch_of_blocks, head_of_blocks, query // query_size, key // key_size)
        seen: Tensor = partial[at] & mask(batch, head, query, key, *buffers)
        return seen if full is None else seen | full[at]

    return (*blocks[:-1], is_seen)


def _table(counts: Tensor, listed: Tensor, columns: Any) -> Tensor:
    """Which blocks are listed: true or false for each batch, head, row and column of blocks.

    Args:
        counts: how many blocks of each row are, of shape (batches, heads, rows).
        listed: their columns, of shape (batches, heads, rows, most blocks of a row); others follow.
        columns: how many columns there are.
    """
    is_listed = torch.arange(listed.shape[-1], device=listed.device) < counts[..., None]
    # What is not listed goes into a column of its own, which is cut off.
    table = torch.zeros((*counts.shape, columns + 1), dtype=torch.bool, device=listed.device)
    return table.scatter(-1, torch.where(is_listed, listed, columns).long(), True)[..., :columns]


@contextmanager
def _learned(buffers: Iterable[Tensor]) -> Iterator[None]:
    """The formula asks which tensors of a score function are learned, and by now no tensor of the graph says so."""
    learned = list(buffers)
    for buffer in learned:
        buffer.requires_grad_()
    try:
        yield
    finally:
        for buffer in learned:
            buffer.requires_grad_(False)


class _Function(Interpreter):
    """A graph as a function of operators that `vmap` can batch: in the place of one, Inductor has put its own."""

    def __call__(self, *args: Any) -> Any:
        return self.run(*args)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is torch.ops.prims.convert_element_type.default:
            tensor, dtype = args
            return tensor.to(dtype)
        return super().call_function(target, args, kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """For several results a plain list, as the graph's own code returns it: `vmap` compares the type."""
        (result,) = args
        return list(result) if isinstance(result, Sequence) else result


class _NumbersInTheGraph(TorchFunctionMode):
    """Makes `torch.tensor` of a number an operator: otherwise it is a constant, which no longer finds its graph."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.tensor:
            return torch.full((), *args, **{"device": self._device, **kwargs})
        return function(*args, **kwargs)


# LITERALINCLUDE END: flex-formula
