"""Streams and events, under the names that users of other accelerators know.

PyTorch's own `torch.Stream` and `torch.Event` work for every backend, through the device guard. The backend therefore
defines no classes: a subclass would add nothing, and `torch.Event.elapsed_time` rejects subclasses.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import torch
from torch import Event as Event
from torch import Stream as Stream

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init
from torch_openreg.openreg._utils import _resolved


# LITERALINCLUDE START: streams-of-the-module
def current_stream(device: torch.device | int | str | None = None) -> Stream:
    """The calling thread's current stream on the device (default: the current device)."""
    if torch.compiler.is_compiling():  # Dynamo can put PyTorch's own query into a graph
        given = () if device is None else (device,)  # NOT PROVEN: traced, not run
        return torch.accelerator.current_stream(*given)  # NOT PROVEN: likewise
    return _C._current_stream(_resolved(device))


def default_stream(device: torch.device | int | str | None = None) -> Stream:
    """The stream that is initially current in every thread."""
    return _C._default_stream(_resolved(device))


def set_stream(stream: Stream | None) -> None:
    """Makes the stream current for the calling thread, and its device the current device; None changes nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


def stream(stream: Stream | None) -> AbstractContextManager[Stream | None]:
    """`with torch.openreg.stream(s):` queues the work of the block on `s`; None changes nothing."""
    if torch.compiler.is_compiling():  # Dynamo knows the stream itself as a context
        return contextlib.nullcontext() if stream is None else stream  # NOT PROVEN: traced, not run
    return contextlib.nullcontext() if stream is None else _Current(stream)


class _Current:
    """Keeps what is current before the block. `with stream:` keeps it in the stream, which other threads enter, too."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._before: list[tuple[int, Stream]] = []  # an item for each block, since blocks may be nested

    def __enter__(self) -> Stream:
        before = _C._current_device(), _C._current_stream(self.stream.device_index)
        torch.accelerator.set_stream(self.stream)
        self._before.append(before)
        return self.stream

    def __exit__(self, *_: object) -> None:
        device, stream = self._before.pop()
        torch.accelerator.set_stream(stream)
        _C._set_device(device)


def stream_priority(stream: Stream) -> int:
    """The stream's priority: 0, or -1 if the stream was created with a negative priority."""
    return _C._stream_priority(stream)


def get_stream_from_external(data_ptr: int, device: torch.device | int | str | None = None) -> Stream:
    """Wraps a driver handle from another library, which must keep the stream alive while PyTorch uses it.

    Args:
        data_ptr: the handle, under the name that `torch.cuda` gives it.
        device: the device of the stream, which the driver knows, too; by default, any.

    Raises:
        RuntimeError: if the driver knows no stream with this handle.
        ValueError: if the stream is one of another device.
    """
    _lazy_init()
    found = _C._external_stream(data_ptr)
    if device is not None and found.device_index != _resolved(device):
        raise ValueError(f"openreg: the stream {data_ptr:#x} belongs to {found.device}, and {device!r} was given")
    return found


# LITERALINCLUDE END: streams-of-the-module
