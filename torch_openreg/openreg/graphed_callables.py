"""Parts of a network that run as graphs, forward and backward: `torch.openreg.make_graphed_callables`.

The rest of the program runs as always, between the replays. One thread at a time calls what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_openreg import _C
from torch_openreg.openreg._graphed_order import Order, Pool, order_of
from torch_openreg.openreg._graphed_part import GraphedCallable
from torch_openreg.openreg.device import current_device, device
from torch_openreg.openreg.graphs import graph_pool_handle
from torch_openreg.openreg.streams import current_stream


# LITERALINCLUDE START: graphed-make
def make_graphed_callables(
    callables: Callable[..., Any] | tuple[Callable[..., Any], ...],
    sample_args: tuple[Any, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
) -> Any:
    """Captures the forward and the backward pass of modules or functions, and returns what replays them.

    A module is returned itself: its `forward` replays while it and all modules in it are in the mode, training or
    evaluation, in which they were captured, and runs as before otherwise. Of a function, another function is returned.
    Results and gradients are tensors of their own, which no later call overwrites.

    Answers the contract of `torch.cuda.make_graphed_callables`.

    Args:
        callables: a module or function, or a tuple of them in the order in which the program will call them. They share
            the memory of one pool; their backward passes run in the opposite order.
        sample_args: the positional arguments, a tuple; with several callables, a tuple of such tuples. Tensors, also in
            tuples, lists and dictionaries. Later arguments have their shapes, dtypes and device, and may require a
            gradient only where the samples do. The samples are copied, and are not needed afterwards. Made in
            `torch.no_grad()`, the graphs have no backward pass, and calls where gradients are recorded are refused.
        num_warmup_iters: how often each callable runs, forward and backward, before its capture. Buffers and the
            states of the default generators of the device and of the CPU are restored afterwards, and nothing else:
            what the callable changes in other tensors, in parameters or by generators of its own is changed by each of
            these runs.
        allow_unused_input: whether arguments and parameters that require a gradient may have no influence on the
            results. Their gradient is None.
        pool: a memory pool, from `graph_pool_handle()` or a graph's `pool()`; by default a new one. Callables that
            another call of this function has made with the same pool overwrite what these save for their backward
            pass, and the reverse: only one of both may be between its forward and its backward pass.

    Raises:
        TypeError: if an argument or a result is not a tensor, or if the arguments are not tuples.
        ValueError: if a tensor is on another device, if a module has hooks or a buffer that requires a gradient, if its
            forward pass replaces a buffer, if an input has no gradient, or if a gradient would be lost.
        RuntimeError: if autocast caches its casts, if the current stream is being captured, in inference mode, or if
            the work contains what a capture refuses.
    """
    if torch.is_inference_mode_enabled():
        raise RuntimeError(
            "openreg: make_graphed_callables() is called in torch.inference_mode(), whose tensors do not tell what "
            "changes them: make it in torch.no_grad(), and call the result in any mode"
        )
    if torch.is_autocast_enabled("openreg") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "openreg: make_graphed_callables() is called while autocast caches its casts, and a replay would not cast "
            "the weights again: use torch.autocast('openreg', cache_enabled=False)"
        )
    originals = callables if isinstance(callables, tuple) else (callables,)
    samples = sample_args if isinstance(callables, tuple) else (sample_args,)
    different = len({id(each) for each in originals})
    if not different == len(originals) == len(samples):
        raise ValueError(
            "openreg: make_graphed_callables() needs each callable once, and one tuple of arguments for each, got "
            f"{len(originals)} callables, of which {different} are different, and {len(samples)} tuples of arguments"
        )
    pool = graph_pool_handle() if pool is None else pool
    order, this_call = order_of(pool), object()
    pairs = zip(originals, samples, strict=True)
    parts = [GraphedCallable(*pair, allow_unused_input, order, (this_call, at)) for at, pair in enumerate(pairs)]
    place = _device_of(parts)
    if current_stream(place).is_capturing():
        raise RuntimeError(
            "openreg: make_graphed_callables() is called on a stream that a graph captures: call it before the capture"
        )
    _capture(parts, place, num_warmup_iters, pool, order)
    results = tuple(part.installed() for part in parts)
    return results if isinstance(callables, tuple) else results[0]


def _device_of(parts: Sequence[GraphedCallable]) -> torch.device:
    """The device of all tensors."""
    places = [(f"{name} of {part.name}", tensor.device) for part in parts for name, tensor in part.tensors()]
    here = torch.device("openreg", current_device())
    expected = next((place for _, place in places if place.type == "openreg"), here)
    for name, place in places:
        if place != expected:
            raise ValueError(
                f"openreg: {name} is on {place}, and make_graphed_callables() captures on one device, here {expected}: "
                f"move it with to('{expected}')"
            )
    return expected


def _capture(parts: Sequence[GraphedCallable], place: torch.device, warm_ups: int, pool: Pool, order: Order) -> None:
    """Captures in the order of the replays, so that a graph reuses only memory that those before it have freed."""
    before, stream = current_stream(place), _C._stream_for_capture(place.index)
    with order.turn(before), device(place), torch.random.fork_rng([place.index], device_type="openreg"):
        stream.wait_stream(before)
        try:
            with stream:
                for part in parts:
                    part.warm_up(warm_ups)
                for part in parts:
                    part.capture_forward(pool)
                for part in reversed(parts):
                    part.capture_backward(pool)
        finally:
            before.wait_stream(stream)  # after an error, too: the stream restores the buffers


# LITERALINCLUDE END: graphed-make
