"""The dispatch mode that sees each operator, the trace that sees each synchronization, and the report of a race."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._traceback import CapturedTraceback

from torch_openreg import _C
from torch_openreg.openreg import _gpu_trace
from torch_openreg.openreg.races.memory import Access, Memory, ranges, start
from torch_openreg.openreg.races.order import Order


# LITERALINCLUDE START: races-report
class RaceError(RuntimeError):
    """Two streams, or a stream and the host, use the same memory without synchronization."""

    __module__ = "torch.openreg"  # where users find it


def _stream_text(stream: int | None) -> str:
    if stream is None:
        return "the host"
    known = _C._external_stream(stream)
    name = "the default stream" if known.stream_id == 0 else f"stream {known.stream_id}"
    return f"{name} of {known.device}"


def _describe(access: Access, stream: int | None) -> str:
    verb = "writes" if access.writes else "reads"
    where = (
        "".join(_program_lines(access.stack)[-_MOST_FRAMES:])
        or "  (no line of Python: a derivative, or a call from C++)\n"
    )
    return f"{access.operator} {verb} {access.argument} {list(access.shape)} on {_stream_text(stream)}\n{where}"


def _report(later: Access, stream: int | None, earlier: Access, begin: int, end: int) -> str:
    if earlier.is_freed:
        cure = "the memory was freed in between: call record_stream(...) of the earlier tensor before it is dropped"
    elif stream is None:
        cure = "wait for the stream on the host before it uses the memory: synchronize() of the stream or an event"
    else:
        cure = "let the later stream wait for the earlier one: wait_stream, or an event; or wait for it on the host"
    return (
        f"openreg: a race about {end - begin} bytes at {begin:#x}, which no order protects:\n"
        f"{_describe(later, stream)}after\n{_describe(earlier, earlier.stream)}{cure}"
    )


# LITERALINCLUDE END: races-report


# LITERALINCLUDE START: races-stack
_MOST_FRAMES = 4
_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))


def _program_lines(stack: CapturedTraceback) -> list[str]:
    """The stack of the program, formatted, innermost frame last, without frames of PyTorch and the backend."""
    frames = stack.summary()  # type: ignore[no-untyped-call]
    return [
        text for frame, text in zip(frames, frames.format(), strict=True) if not frame.filename.startswith(_LIBRARIES)
    ]


# LITERALINCLUDE END: races-stack


# LITERALINCLUDE START: races-arguments
def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The plain tensors with memory in an argument or result. Subclasses call operators on what they wrap."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
    elif type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided and value.numel() > 0:
        yield value


_STATISTICS = ("running_mean", "running_var")


def _arguments(operator: torch._ops.OpOverload, args: Any, kwargs: Any) -> Iterator[tuple[str, bool, Any]]:
    """Yields each argument's name, whether the operator writes it, and its value."""
    names = [argument.name for argument in operator._schema.arguments]
    given = {name: args[place] if place < len(args) else kwargs.get(name) for place, name in enumerate(names)}
    for argument in operator._schema.arguments:
        writes = argument.alias_info is not None and argument.alias_info.is_write
        writes |= argument.name in _STATISTICS and _writes_statistics(operator, given)
        yield argument.name, writes, given[argument.name]


def _writes_statistics(operator: torch._ops.OpOverload, given: dict[str, Any]) -> bool:
    """Whether a batch norm writes its running statistics. The schemas of these do not say so."""
    name = _name(operator)
    of_parts = name.startswith(("batch_norm_gather_stats", "batch_norm_update_stats"))
    return of_parts or (name == "native_batch_norm" and bool(given["training"]))


_OF_NO_MEMORY = (torch.ops.aten.record_stream.default, torch.ops.aten.is_pinned.default)


def _uses_no_memory(operator: torch._ops.OpOverload) -> bool:
    """Whether the operator is a view, or only reads or changes a tensor's metadata on the host."""
    return operator.is_view or torch.Tag.inplace_view in operator.tags or operator in _OF_NO_MEMORY


def _name(operator: torch._ops.OpOverload) -> str:
    return operator._schema.name.rpartition("::")[2]


def _reads_only_sizes(operator: torch._ops.OpOverload) -> bool:
    return _name(operator).startswith("new_") or _name(operator).endswith("_like")


def _writes_no_result(operator: torch._ops.OpOverload) -> bool:
    return _name(operator).startswith(("empty", "new_empty"))


# LITERALINCLUDE END: races-arguments


# LITERALINCLUDE START: races-detector
def _device_of(stream: int) -> int | None:
    """The index of a stream's device. None if another library has destroyed the stream."""
    try:
        return _C._external_stream(stream).device.index
    except RuntimeError:
        return None


class RaceDetector(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Checks each operator on the device against all earlier ones while it is active.

    Uses of arguments are checked and recorded before the operator runs, and those of new results after it. Operators
    that take functions, as `torch.cond` does, run unchecked, and so do the operators in these functions.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        listen()
        self.order = Order(_device_of)
        self._memory = Memory()
        self._pinned: dict[int, tuple[int, StorageWeakRef]] = {}  # host memory that copies use: end, owner
        self._frees: deque[tuple[int, int, set[int]]] = deque()
        self.lock = threading.RLock()

    def __enter__(self) -> RaceDetector:
        _active.append(self)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        _active.remove(self)

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Checks the arguments, runs the operator, and checks the results."""
        kwargs = kwargs or {}
        if isinstance(operator, torch._ops.HigherOrderOperator) or _uses_no_memory(operator):
            return operator(*args, **kwargs)
        call = _Call(self, operator, args, kwargs)
        with self.lock:
            call.use_arguments()
        result = operator(*args, **kwargs)
        with self.lock:
            call.use_results(result)
        return result

    def freed(self, address: int) -> None:
        """Called before memory is freed, at any point: the next operator records the free."""
        block = _C._recorded_streams(address)
        if block is not None:
            self._frees.append((address, address + block[0], set(block[1])))

    def enter_frees(self) -> None:
        """Records frees. The allocator waits for recorded streams before it reuses memory, so these cannot race."""
        while self._frees:
            self._memory.free(*self._frees.popleft())

    def use(self, tensor: torch.Tensor, access: Access) -> None:
        """Checks a use of memory by a stream and records it. Raises: RaceError."""
        for begin, end in ranges(tensor):
            self._check(begin, end, access, access.stream)
            (self._memory.write if access.writes else self._memory.read)(begin, end, access)

    def use_by_host(self, tensor: torch.Tensor, access: Access) -> None:
        """Checks a use of memory by the host while a copy may still be using it. Raises: RaceError."""
        address = start(tensor)
        known = self._pinned.get(address)
        if known is None:
            return
        end, owner = known
        if owner.expired():  # type: ignore[no-untyped-call]
            # This is other memory at the same address: PyTorch's allocator reuses it after the copies have finished.
            self._memory.free(address, end, self.order.streams())
            del self._pinned[address]
            return
        for begin, end in ranges(tensor):
            self._check(begin, end, access, None)

    def keep_pinned(self, tensor: torch.Tensor) -> None:
        """Remembers that a queued copy uses the host memory of the tensor."""
        storage, address = tensor.untyped_storage(), start(tensor)
        owner = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self._pinned[address] = (address + storage.nbytes(), owner)

    def _check(self, begin: int, end: int, access: Access, stream: int | None) -> None:
        for cell in self._memory.known(begin, end):
            for earlier in cell.accesses():
                conflicts = access.writes or earlier.writes
                if conflicts and not self._is_before(earlier, stream):
                    raise RaceError(_report(access, stream, earlier, begin, end))

    def _is_before(self, earlier: Access, stream: int | None) -> bool:
        if self.order.is_before(earlier.stream, earlier.number, stream):
            return True
        # Nothing reports that a stream is destroyed, but the driver has waited for its work by then.
        self.order.host_waits_for_device(None)
        return self.order.is_before(earlier.stream, earlier.number, stream)


# LITERALINCLUDE END: races-detector


# LITERALINCLUDE START: races-call
_COPIES = (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default)


class _Call:
    """One call of one operator."""

    def __init__(self, detector: RaceDetector, operator: Any, args: Any, kwargs: Any) -> None:
        self._detector = detector
        self._operator = operator
        arguments = list(_arguments(operator, args, kwargs))
        self._tensors = [(name, writes, each) for name, writes, value in arguments for each in _tensors(value)]
        self._devices = [each.device for _, _, each in self._tensors if each.device.type == "openreg"]
        by_name = {name: value for name, _, value in arguments}
        if not self._devices and isinstance(by_name.get("device"), torch.device):
            self._devices = [by_name["device"]] if by_name["device"].type == "openreg" else []
        self._is_queued_copy = operator in _COPIES and bool(by_name["non_blocking"])
        self._numbers: dict[int, int] = {}  # this operation's number on each stream that it uses
        self._stack = CapturedTraceback.extract()  # type: ignore[no-untyped-call] # symbolized only for a report

    def use_arguments(self) -> None:
        """Checks the arguments before the operator runs."""
        self._detector.enter_frees()
        # A copy between devices runs on its source's stream (the last argument's), after the destination stream's work.
        for device in self._devices[:-1]:
            if device != self._devices[-1]:
                self._detector.order.stream_waits(_current_stream(self._devices[-1]), _current_stream(device))
        for name, writes, tensor in self._tensors:
            if writes or not _reads_only_sizes(self._operator):
                self._use(tensor, f"argument '{name}'", writes)

    def use_results(self, result: Any) -> None:
        """Checks results after the operator has been queued. Results that are arguments are already recorded."""
        given = {id(tensor) for _, _, tensor in self._tensors}
        for tensor in [] if _writes_no_result(self._operator) else _tensors(result):
            if id(tensor) not in given:
                self._use(tensor, "its result", True)

    def _use(self, tensor: torch.Tensor, argument: str, writes: bool) -> None:
        if tensor.device.type == "openreg":
            is_argument = tensor.device in self._devices
            stream = _current_stream(self._devices[-1] if is_argument else tensor.device)
        elif self._is_queued_copy and self._devices and tensor.is_pinned():
            stream = _current_stream(self._devices[-1])
            self._detector.keep_pinned(tensor)
        elif tensor.is_cpu:
            self._detector.use_by_host(tensor, self._access(tensor, argument, writes, 0))
            return
        else:
            return
        if stream not in self._numbers:
            self._numbers[stream] = self._detector.order.operation(stream)
        self._detector.use(tensor, self._access(tensor, argument, writes, stream))

    def _access(self, tensor: torch.Tensor, argument: str, writes: bool, stream: int) -> Access:
        name, number = str(self._operator._schema.name), self._numbers.get(stream, 0)
        return Access(name, argument, writes, stream, number, tuple(tensor.shape), self._stack)


def _current_stream(device: torch.device) -> int:
    return int(torch.accelerator.current_stream(device).native_handle)  # type: ignore[attr-defined]


# LITERALINCLUDE END: races-call


# LITERALINCLUDE START: races-trace
_active: list[RaceDetector] = []


def _traced(change: Callable[..., None]) -> Callable[..., None]:
    """Returns a callback that applies a change to the order of each active detector."""

    def callback(*numbers: int) -> None:
        for detector in _active:
            with detector.lock:
                change(detector.order, *numbers)

    return callback


def _device_synchronized(order: Order) -> None:
    order.host_waits_for_device(torch.accelerator.current_device_index())


def _freed(address: int) -> None:
    for detector in _active:
        detector.freed(address)


@functools.cache
def listen() -> None:
    """Makes PyTorch trace the backend for the rest of the process: tracing cannot be stopped."""
    _gpu_trace.EventRecordCallbacks.add_callback(_traced(Order.record))
    _gpu_trace.EventWaitCallbacks.add_callback(_traced(Order.wait))
    _gpu_trace.EventDeletionCallbacks.add_callback(_traced(Order.forget_event))
    _gpu_trace.EventSynchronizationCallbacks.add_callback(_traced(Order.host_waits_for_event))
    _gpu_trace.StreamSynchronizationCallbacks.add_callback(_traced(Order.host_waits_for_stream))
    _gpu_trace.DeviceSynchronizationCallbacks.add_callback(_traced(_device_synchronized))
    _gpu_trace.MemoryDeallocationCallbacks.add_callback(_freed)
    torch._C._activate_gpu_trace()


# LITERALINCLUDE END: races-trace
