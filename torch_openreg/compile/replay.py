"""Compiled graphs that are captured and replayed: `torch.compile(mode="reduce-overhead")`.

Inductor's own trees of captured graphs create objects of CUDA. Here every compiled graph, forward or backward, is
captured for itself, with `torch.accelerator.Graph` (csrc/graph). Results must be those of the launches one by one, so
whatever a replay would overwrite too early is noticed first.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import torch
from torch import Tensor
from torch._inductor import config
from torch._inductor.compile_fx import index_expanded_dims_and_copy_, static_input
from torch._inductor.cudagraph_utils import cudagraphs_log, log_cudagraph_skip_and_bump_counter
from torch._inductor.output_code import get_expanded_dims
from torch._inductor.utils import BoxedBool, any_is_symbolic, get_first_incompatible_cudagraph_node
from torch.fx import GraphModule

from torch_openreg import _C
from torch_openreg.openreg.device import device
from torch_openreg.openreg.graphs import _captured_into
from torch_openreg.openreg.streams import current_stream

BoxedCall = Callable[[list[Any]], Sequence[Any]]
# From a replay's inputs, and the memory with its results.
MakeResult = Callable[[list[Any], dict[int, torch.UntypedStorage]], Any]


# LITERALINCLUDE START: compile-replayed-graph
# How many kinds of call that ran once are remembered: if a number is another one in each call, there is no end of them.
_KEPT_KINDS = 256


class ReplayedGraph:
    """A compiled graph: the first call of a kind runs, the second is captured, and later ones are replayed.

    Calls are of one kind if they are on one stream and if their numbers are equal. Only one thread at a time replays;
    meanwhile, another one launches the kernels one by one, as does a program that captures a graph of its own.

    Args:
        call: Inductor's function. It takes a list of tensors and integers, and empties it.
        index: the index of the device.
        in_place: the inputs that rarely move, and are used where they are: parameters, buffers, and in a backward graph
            what the forward graph has saved. Other inputs are copied before each replay.
        mutated: the inputs that the graph writes. They are always used where they are.
    """

    def __init__(self, call: BoxedCall, index: int, in_place: Sequence[int], mutated: Sequence[int]) -> None:
        self._call = call
        self._index = index
        self._mutated = frozenset(mutated)
        self._in_place = {*in_place, *mutated}
        self._copied_results: set[int] = set()
        self._captured: dict[tuple[Any, ...], _Captured | None] = {}
        self._seen: deque[tuple[Any, ...]] = deque(maxlen=_KEPT_KINDS)
        # Options of torch.compile are in force while a graph is compiled, and not when it is called.
        self._captures_left = config.triton.cudagraph_unexpected_rerecord_limit
        self._must_capture = config.triton.cudagraph_or_error
        self._moves: Counter[int] = Counter()
        self._last_moved: dict[int, int] = {}
        self._lock = threading.Lock()

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        """Runs the graph, and empties the list."""
        if current_stream(self._index).is_capturing() or not self._lock.acquire(blocking=False):
            return self._call(inputs)
        try:
            captured = self._find(inputs)
            return self._call(inputs) if captured is None else captured.replay(inputs)
        finally:
            self._lock.release()

    def _find(self, inputs: list[Any]) -> _Captured | None:
        """What can be replayed with these inputs now; captured first, if this is the second call of its kind."""
        numbers = (value for value in inputs if not isinstance(value, Tensor))
        kind = (current_stream(self._index).stream_id, torch.is_inference_mode_enabled(), *numbers)
        captured = self._captured.get(kind)
        if captured is not None:
            if kept := captured.kept_results():
                # The program keeps them, as it keeps a loss: they are copies from the next capture on. What a forward
                # graph saves for the backward graph is mostly gone by now, and is never copied.
                self._copied_results |= kept
                self._captured[kind] = None
                return None
            if moved := captured.moved(inputs):
                return self._capture(kind, inputs) if self._have_settled(moved) else None
            self._last_moved = {}
            return captured
        if self._captures_left > 0:
            if kind in self._captured or kind in self._seen:
                return self._capture(kind, inputs)
            self._seen.append(kind)
        return None

    def _have_settled(self, moved: dict[int, int]) -> bool:
        """Whether to capture again: no input has moved since the last call, or one has moved too often, and is copied.

        What a forward graph saves, for example, moves twice when the program keeps a result of that graph: in the call
        that is launched, and in the next one, which is captured again.
        """
        if moved == self._last_moved:
            return True
        self._last_moved = moved
        self._moves.update(moved.keys())
        restless = {at for at in moved if self._moves[at] > 2} - self._mutated
        self._in_place -= restless
        return bool(restless)

    def _capture(self, kind: tuple[Any, ...], inputs: list[Any]) -> _Captured | None:
        captured = None
        if self._captures_left > 0:
            self._captures_left -= 1
            try:
                captured = _Captured(self._call, self._index, inputs, self._in_place, self._copied_results)
            except RuntimeError as error:
                if self._must_capture:
                    raise
                self._captures_left = 0
                log_cudagraph_skip_and_bump_counter(f"skipping cudagraphs due to {error}")
        self._captured[kind] = captured
        return captured


# LITERALINCLUDE END: compile-replayed-graph


# LITERALINCLUDE START: compile-captured
class _Captured:
    """One capture of a compiled graph, with the memory of its inputs and results.

    Raises:
        RuntimeError: if the graph does what a capture refuses, or if the driver has no graphs.
    """

    def __init__(
        self,
        call: BoxedCall,
        index: int,
        inputs: list[Any],
        in_place: AbstractSet[int],
        copied_results: AbstractSet[int],
    ) -> None:
        self._index = index
        tensors = {at: value for at, value in enumerate(inputs) if isinstance(value, Tensor)}
        self._addresses = {at: value.data_ptr() for at, value in tensors.items() if at in in_place}
        copied = tensors.keys() - in_place
        self._buffers = {at: (_buffer(tensors[at]), get_expanded_dims(tensors[at])) for at in copied}
        given = [self._buffers[at][0] if at in copied else value for at, value in enumerate(inputs)]
        self._graph = torch.accelerator.Graph(capture_error_mode="thread_local")
        with device(index), _C._stream_for_capture(index), _captured_into(self._graph):
            # The conjugate and the negative bit of a tensor are not part of its memory.
            results = [_resolved(each) for each in call(list(given))]
        self._memory: dict[int, _Memory] = {}
        self._results = [self._result(*each, given, copied_results) for each in enumerate(results)]
        del results
        for memory in self._memory.values():
            memory.count_own_uses()

    def _result(self, number: int, result: Any, given: list[Any], copied: AbstractSet[int]) -> MakeResult:
        """What makes one result of a replay."""
        if not isinstance(result, Tensor):
            return lambda inputs, taken: result
        for at, value in enumerate(given):
            if value is result:
                return lambda inputs, taken: inputs[at]
        offset, *form = result.storage_offset(), result.size(), result.stride()
        like = result.new_empty(0)
        storage = result.untyped_storage()
        for at in self._addresses:
            if given[at].untyped_storage()._cdata == storage._cdata:
                # An input at the same address may lie in another storage, at another offset.
                behind = offset - given[at].storage_offset()
                return lambda inputs, taken: like.new_empty(0).set_(
                    inputs[at].untyped_storage(), inputs[at].storage_offset() + behind, *form
                )
        key = storage._cdata
        memory = self._memory.setdefault(key, _Memory(storage))
        memory.results.add(number)
        memory.is_copied |= number in copied
        if memory.is_copied:
            return lambda inputs, taken: like.new_empty(0).set_(taken[key], offset, *form)
        return lambda inputs, taken: result.detach()

    def moved(self, inputs: list[Any]) -> dict[int, int]:
        """The inputs that are not where those of the capture were, with their addresses."""
        return {at: now for at, address in self._addresses.items() if (now := inputs[at].data_ptr()) != address}

    def kept_results(self) -> set[int]:
        """The results of the last replay that something can still read, so that no replay may overwrite them."""
        return {number for memory in self._memory.values() if memory.is_read() for number in memory.results}

    def replay(self, inputs: list[Any]) -> list[Any]:
        """Queues the captured work on the current stream, and empties the list."""
        for at, (buffer, expanded) in self._buffers.items():
            index_expanded_dims_and_copy_(buffer, inputs[at], expanded)
        with device(self._index):
            self._graph.replay()
        taken = {key: memory.take() for key, memory in self._memory.items()}
        results = [make(inputs, taken) for make in self._results]
        inputs.clear()
        return results


def _buffer(value: Tensor) -> Tensor:
    """Memory for an input, as lazily conjugated and negated: of an input with gaps, the copy is one of bytes."""
    buffer = static_input(value).conj() if value.is_conj() else static_input(value)
    return torch._neg_view(buffer) if value.is_neg() else buffer


def _resolved(result: Any) -> Any:
    return result.resolve_conj().resolve_neg() if isinstance(result, Tensor) else result


# LITERALINCLUDE END: compile-captured


# LITERALINCLUDE START: compile-replayed-memory
class _Memory:
    """Memory of a captured graph that holds results. Each replay overwrites it."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._storage = storage
        self._place = storage.data_ptr(), storage.nbytes()
        self._own_uses = (0, 0)
        self.results: set[int] = set()
        self.is_copied = False

    def count_own_uses(self) -> None:
        """Called when no result has been handed out yet."""
        self._own_uses = self._uses()

    def _uses(self) -> tuple[int, int]:
        # A program may hold tensors, or the storage: for Python that is the object here, and C++ counts it once.
        return torch._C._storage_Use_Count(self._storage._cdata), sys.getrefcount(self._storage)

    def is_read(self) -> bool:
        """Whether the program has the storage or a tensor in it, has resized it, or has used it on another stream."""
        if (self._storage.data_ptr(), self._storage.nbytes()) != self._place:
            return True  # a replay would still write where the storage was
        if any(now > own for now, own in zip(self._uses(), self._own_uses, strict=True)):
            return True
        block = _C._recorded_streams(self._storage.data_ptr())
        return block is not None and bool(block[1])

    def take(self) -> torch.UntypedStorage:
        """What the last replay wrote, where the program may keep it if it is known to do so."""
        return self._storage.clone() if self.is_copied else self._storage  # type: ignore[no-untyped-call]


# LITERALINCLUDE END: compile-replayed-memory


# LITERALINCLUDE START: compile-replay-after-compiling
def replay_graph(compiled_graph: Any, cudagraphs: BoxedBool) -> None:
    """Puts a `ReplayedGraph` in the place of a compiled graph that Inductor has found fit for a capture."""
    reasons = compiled_graph.cudagraph_info.cudagraph_fail_reasons
    if reasons:
        BoxedBool.disable(cudagraphs)
        log_cudagraph_skip_and_bump_counter(
            compiled_graph.disabled_cudagraphs_reason or f"skipping cudagraphs due to {reasons}"
        )
        return
    compiled_graph.current_callable = ReplayedGraph(
        compiled_graph.current_callable,
        next(iter(compiled_graph.device_idxs)),
        compiled_graph.fx_kwargs["static_input_idxs"] or (),
        tuple(compiled_graph.mutated_input_idxs),
    )


def why_not_captured(devices: Sequence[torch.device], module: torch.nn.Module) -> str | None:
    """Why the work of a compiled graph cannot be captured, or None.

    Args:
        devices: those of its operators.
        module: the graph. Inductor itself checks what is in it only where it does not divide it into parts that are
            captured, and others. Here a graph is captured whole.
    """
    why = _why_not(devices, module)
    if why is None:
        return None
    reason = f"skipping cudagraphs due to {why}"
    cudagraphs_log.warning(reason)
    return reason


def _why_not(devices: Sequence[torch.device], module: torch.nn.Module) -> str | None:
    if len(devices) != 1:
        return f"devices: {', '.join(map(str, devices))}; a captured graph is on one device"
    graphs = [each for each in module.modules() if isinstance(each, GraphModule)]
    for node in (node for graph in graphs for node in graph.graph.nodes):
        # The code names the stream that was current while it was traced, and a capture is on another one.
        is_of_streams = getattr(node.target, "namespace", None) == "streams"
        if is_of_streams or node.meta.get("custom", {}).get("stream") is not None:
            return f"streams or events of the program: {node.target}"
    for graph in graphs:
        if (unsafe := get_first_incompatible_cudagraph_node(graph)) is not None:
            return f"incompatible op {unsafe.target}"
    inputs = [node.meta.get("val") for node in graphs[0].graph.nodes if node.op == "placeholder"]
    if config.triton.cudagraph_skip_dynamic_graphs and any_is_symbolic(*inputs):
        return "symbolic sizes of inputs, and torch._inductor.config.triton.cudagraph_skip_dynamic_graphs"
    return None


# LITERALINCLUDE END: compile-replay-after-compiling
