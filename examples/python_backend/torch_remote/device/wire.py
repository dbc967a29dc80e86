"""The format of an operator call on the wire: bytes without an address in them, and the places of its tensors.

The bytes, and the large contents beside them, have everything that the layout of the outcome depends on. So they are
read twice: by the device, where each place is memory, and by the host itself, with tensors without memory, to compute
the layout of the results.
"""

from __future__ import annotations

import ctypes
import functools
import io
import pickle
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import torch

LARGE = 1 << 14  # a CPU tensor of at least so many bytes travels in shared memory


class Place(NamedTuple):
    """Where the elements of a tensor are: the storage by address and bytes, and the offset in elements."""

    address: int
    nbytes: int
    offset: int


class Layout(NamedTuple):
    """Everything else about a tensor."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


class Argument(NamedTuple):
    """A result that is an argument: the number of the tensor."""

    number: int


class Call(NamedTuple):
    """A written call: the bytes, the tensors of the device in it, those of the CPU, and large contents.

    ``kept`` owns the memory of the contents until they have been sent.
    """

    body: bytes
    tensors: list[torch.Tensor]
    hosts: list[torch.Tensor]
    buffers: list[memoryview]
    kept: list[torch.Tensor]


def layout(tensor: torch.Tensor) -> Layout:
    """The layout of a tensor."""
    return Layout(tuple(tensor.size()), tensor.stride(), tensor.dtype)


# LITERALINCLUDE START: remote-writer
class Writer(pickle.Pickler):
    """Writes device tensors by number, CPU tensors by value. An object that occurs twice stays one, as pickle does."""

    def __init__(self, file: io.BytesIO) -> None:
        self.tensors: list[torch.Tensor] = []
        self.hosts: list[torch.Tensor] = []
        self.kept: list[torch.Tensor] = []
        self.buffers: list[memoryview] = []
        # The list and not self: a reference cycle would keep tensors alive until Python's next garbage collection.
        super().__init__(file, 5, buffer_callback=functools.partial(_is_small, self.buffers))

    def reducer_override(self, value: Any) -> Any:
        """Returns how to reconstruct an object that pickle does not know."""
        if isinstance(value, torch.Tensor):
            return self._of_host(value) if value.is_cpu else self._of_device(value)
        if isinstance(value, torch.dtype):
            return dtype_of, (str(value).removeprefix("torch."),)
        if isinstance(value, torch.device):
            return here_device, ()
        if isinstance(value, torch.Generator):
            return here_generator, ()
        return NotImplemented

    def _of_device(self, tensor: torch.Tensor) -> Any:
        self.tensors.append(tensor)
        return here_tensor, (len(self.tensors) - 1, *layout(tensor), tensor.is_conj(), tensor.is_neg())

    def _of_host(self, tensor: torch.Tensor) -> Any:
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
        self.hosts.append(tensor)
        self.kept.append(plain)
        content = (ctypes.c_char * (plain.numel() * plain.itemsize)).from_address(plain.data_ptr())
        return from_buffer, (pickle.PickleBuffer(content), plain.dtype, tuple(plain.size()))


def _is_small(large: list[memoryview], buffer: pickle.PickleBuffer) -> bool:
    """Whether a content travels within the bytes. If not, it is added to ``large``."""
    content = buffer.raw()
    if len(content) >= LARGE:
        large.append(content)
    return len(content) < LARGE


def write(value: object) -> Call:
    """Writes anything with tensors in it."""
    file = io.BytesIO()
    writer = Writer(file)
    writer.dump(value)
    return Call(file.getvalue(), writer.tensors, writer.hosts, writer.buffers, writer.kept)


# LITERALINCLUDE END: remote-writer


def operator(name: str) -> Any:
    """The overload with a name: "aten.add.Tensor"."""
    space, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload)


# LITERALINCLUDE START: remote-reader
class Here(Protocol):
    """What the numbers in a written call refer to, where it is read."""

    device: torch.device
    generator: torch.Generator | None

    def tensor(self, number: int, layout: Layout) -> torch.Tensor:
        """The tensor with a number."""


_reading = threading.local()


def read(body: bytes, here: Here | None = None, buffers: Iterable[memoryview] = ()) -> Any:
    """Reads what was written."""
    _reading.here = here
    try:
        return pickle.loads(body, buffers=buffers)
    finally:
        _reading.here = None  # it has the tensors, which would stay until the thread reads again


def here_tensor(number: int, *rest: Any) -> torch.Tensor:
    """In a written call: a tensor of the device."""
    *form, is_conj, is_neg = rest
    tensor: torch.Tensor = _reading.here.tensor(number, Layout(*form))
    tensor = tensor.conj() if is_conj else tensor
    return torch._neg_view(tensor) if is_neg else tensor


def dtype_of(name: str) -> torch.dtype:
    """In a written call: a dtype."""
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def here_device() -> torch.device:
    """In a written call: the device."""
    device: torch.device = _reading.here.device
    return device


def here_generator() -> torch.Generator | None:
    """In a written call: where its random numbers come from."""
    generator: torch.Generator | None = _reading.here.generator
    return generator


def from_buffer(content: bytearray | memoryview, dtype: torch.dtype, size: tuple[int, ...]) -> torch.Tensor:
    """In a written call: a tensor of the CPU, by value."""
    if not len(content):
        return torch.empty(size, dtype=dtype)
    return torch.frombuffer(content, dtype=torch.uint8).view(dtype).view(size)


# LITERALINCLUDE END: remote-reader


# LITERALINCLUDE START: remote-outcome
class Outcome(NamedTuple):
    """The results of a call without the values: each tensor as its layout or as the argument that it is.

    ``resized`` has the new layouts of arguments that the call has resized, by number.
    """

    results: Any
    resized: dict[int, Layout]


def outcome(results: Any, arguments: list[torch.Tensor], before: list[Layout]) -> Outcome:
    """Describes the results of a call, and what it did to the tensors among its arguments."""
    now = map(layout, arguments)
    resized = {n: new for n, (new, old) in enumerate(zip(now, before, strict=True)) if new != old}
    return Outcome(_described(results, arguments), resized)


def _described(value: Any, arguments: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise NotImplementedError(f"remote: a result has the layout {value.layout}; tensors here are strided")
        same = (Argument(number) for number, argument in enumerate(arguments) if argument is value)
        return next(same, None) or layout(value)
    return [_described(one, arguments) for one in value] if isinstance(value, list | tuple) else value


def new_tensors(results: Any) -> list[Layout]:
    """The layouts in the results of an outcome, in order."""
    if isinstance(results, Layout):
        return [results]
    if isinstance(results, list):
        return [layout for one in results for layout in new_tensors(one)]
    return []


# LITERALINCLUDE END: remote-outcome
