"""One function for every operator: it writes the call, learns the layout of the results, and sends it to the device.

The layout is *foreseen*, by calling the operator on meta tensors, and cached; then the host does not wait. Where that
is impossible, because it depends on values or there is no meta function, the device is *asked*. With
TORCH_REMOTE_LAYOUTS=ask it is always asked.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from typing import Any

import torch

from . import random
from .base import base
from .device import wire
from .device.wire import Argument, Call, Layout, Outcome, Place
from .devices import Device, DeviceDied, devices

ALWAYS_ASK = os.environ.get("TORCH_REMOTE_LAYOUTS") == "ask"
REMEMBERED = 10_000  # outcomes, a few hundred bytes each
# Their meta functions give other layouts than the CPU's kernels.
MISJUDGED = frozenset(
    f"aten.{name}"
    for name in (
        "native_batch_norm.default",
        "_native_batch_norm_legit.default",
        "_native_batch_norm_legit.no_stats",
        "_native_batch_norm_legit_functional.default",
        "_embedding_bag.default",
        "_embedding_bag_forward_only.default",
    )
)
# Operators that take CPU tensors of any dimension by design: indices, and lengths of sequences.
READS_HOST = frozenset({"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put",
                        "_pack_padded_sequence", "_ctc_loss", "_ctc_loss_backward"})  # fmt: skip


def _as_tensor(number: Any, given: list[Any]) -> torch.Tensor:
    """A number has no dtype of its own: it gets that of the result, and would otherwise be rounded to the default."""
    exact = torch.tensor(number, dtype={float: torch.float64, complex: torch.complex128}.get(type(number)))
    dtypes = [torch.result_type(one, number) for one in given if isinstance(one, torch.Tensor)]
    return exact.to(functools.reduce(torch.promote_types, dtypes or [torch.tensor(number).dtype]))


# LITERALINCLUDE START: remote-rules
class Rules:
    """What the schema of an operator says about its calls."""

    def __init__(self, op: torch._ops.OpOverload) -> None:
        schema = op._schema
        self.name = str(op)
        self.packet = self.name.split(".")[1]
        self.is_drawing = torch.Tag.nondeterministic_seeded in op.tags
        self.is_asked = ALWAYS_ASK or self.name in MISJUDGED
        self.is_asked |= any(str(one.type) not in ("Tensor", "List[Tensor]") for one in schema.returns)
        self.returns = len(schema.returns)
        if any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns):
            raise NotImplementedError(
                f"remote: {self.name} returns a view; views are made on the host, and this is not"
            )
        # A Python kernel gets plain numbers for tensors that wrap a number, which most operators do not accept back.
        takes_numbers = torch._C._should_allow_numbers_as_tensors(self.packet)
        tensors = [one.name for one in schema.arguments if str(one.type) in ("Tensor", "Optional[Tensor]")]
        self.wrapped = frozenset() if takes_numbers else frozenset(tensors)
        self.names = [one.name for one in schema.arguments]

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, with numbers wrapped in tensors where the operator rejects numbers."""
        if not self.wrapped:
            return list(args), kwargs
        given = [*args, *kwargs.values()]
        listed = [self._wrap(name, value, given) for name, value in zip(self.names, args, strict=False)]
        return listed, {name: self._wrap(name, value, given) for name, value in kwargs.items()}

    def given_generator(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Generator | None:
        """The generator among the arguments."""
        found: torch.Generator | None = dict(zip(self.names, args, strict=False), **kwargs).get("generator")
        return found

    def _wrap(self, name: str, value: Any, given: list[Any]) -> Any:
        is_number = isinstance(value, bool | int | float | complex) and name in self.wrapped
        return _as_tensor(value, given) if is_number else value


_rules = functools.cache(Rules)
_asked = itertools.count()
# LITERALINCLUDE END: remote-rules


# LITERALINCLUDE START: remote-call
def call(op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Runs an operator on the device where its tensors are."""
    rules = _rules(op)
    listed, named = rules.arguments(args, kwargs)
    written = wire.write((rules.name, listed, named, torch.get_default_dtype()))
    device = _device_of(rules, written, named)
    drawn = random.draw(rules.given_generator(args, kwargs), device.index) if rules.is_drawing else None
    known = None if rules.is_asked else foresee(written)
    if known is None:
        stream, number = base().current_stream(device.index), next(_asked)
        try:
            known = device.ask(
                "ask", stream, number, written.body, places(written), drawn, buffers=written.buffers
            ).value
            if not known.resized:
                new: New = []
                results = _made(known.results, written, device, new)
                if new:
                    device.launch_on(stream, "place", number, new)
                return _returned(rules, results)
        # Such as Ctrl-C: nobody will tell the device where its results belong.
        except BaseException:
            with contextlib.suppress(DeviceDied, OSError):
                device.launch("forget", stream, number)
            raise
    return _returned(rules, launch(written, known, device, drawn))


def launch(written: Call, known: Outcome, device: Device, drawn: tuple[int, int] | None = None) -> Any:
    """Sends a call whose outcome is known, without waiting. Returns the results."""
    for number, layout in known.resized.items():
        resize(written.tensors[number], layout)
    new: New = []
    results = _made(known.results, written, device, new)
    stream = base().current_stream(device.index)
    device.launch_on(stream, "run", written.body, places(written), new, drawn, buffers=written.buffers)
    return results


# LITERALINCLUDE END: remote-call


# LITERALINCLUDE START: remote-foresee
class Nowhere:
    """Reads a written call with tensors that have a layout but no memory."""

    device = torch.device("meta")
    generator: torch.Generator | None = None

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []

    def tensor(self, number: int, layout: Layout) -> torch.Tensor:
        """The argument with a number."""
        self.tensors.append(torch.empty_strided(*layout[:2], dtype=layout.dtype, device="meta"))
        return self.tensors[-1]


_foreseen: dict[bytes, Outcome | None] = {}


def foresee(written: Call) -> Outcome | None:
    """The outcome of a call, or None if only the device can tell.

    If the meta function raises, the device is asked: it succeeds, or raises with the kernel's own message.
    """
    if written.buffers:  # large contents, which the bytes lack: a layout may depend on them, as on a mask
        return _inferred(written)
    if written.body not in _foreseen:
        found = _inferred(written)
        if len(_foreseen) >= REMEMBERED:
            _foreseen.clear()
        _foreseen[written.body] = found
    return _foreseen[written.body]


def _inferred(written: Call) -> Outcome | None:
    here = Nowhere()
    try:
        name, args, kwargs, _ = wire.read(written.body, here, written.buffers)
        before = [wire.layout(tensor) for tensor in here.tensors]
        op = wire.operator(name)
        found = wire.outcome(op(*args, **kwargs), here.tensors, before)
    except Exception:  # whatever it is, the device's error is better
        return None
    return found if _returns_what_it_writes(op, found) else None


def _returns_what_it_writes(op: torch._ops.OpOverload, found: Outcome) -> bool:
    """Whether each result that is a written argument by the schema is one. Some meta functions return a new tensor."""
    returns = op._schema.returns
    results = found.results if len(returns) > 1 else [found.results]
    return not any(
        one.alias_info is not None and isinstance(result, Layout) for one, result in zip(returns, results, strict=False)
    )


# LITERALINCLUDE END: remote-foresee


# LITERALINCLUDE START: remote-results
def places(written: Call) -> list[Place]:
    """Where the tensors of a call are in memory."""
    found = []
    for tensor in written.tensors:
        storage = tensor.untyped_storage()
        found.append(Place(storage.data_ptr(), storage.nbytes(), int(tensor.storage_offset())))
    return found


New = list[tuple[int, Layout]]  # where the device is to put each result


def _made(described: Any, written: Call, device: Device, new: New) -> Any:
    """The results as tensors of the host."""
    if isinstance(described, Argument):
        return written.tensors[described.number]
    if isinstance(described, Layout):
        tensor = base().empty(described, device.index)
        new.append((tensor.untyped_storage().data_ptr(), described))
        return tensor
    return [_made(one, written, device, new) for one in described] if isinstance(described, list) else described


def resize(tensor: torch.Tensor, layout: Layout) -> None:
    """Gives a tensor another layout, and its storage at least the bytes for it."""
    reach = sum((size - 1) * stride for size, stride in zip(layout.size, layout.stride, strict=True))
    nbytes = (int(tensor.storage_offset()) + reach + 1) * tensor.itemsize if 0 not in layout.size else 0
    if nbytes > tensor.untyped_storage().nbytes():
        base().grow(tensor, nbytes)
    base().set_layout(tensor, layout)


def _returned(rules: Rules, results: Any) -> Any:
    return None if rules.returns == 0 else tuple(results) if rules.returns > 1 else results


# LITERALINCLUDE END: remote-results


# LITERALINCLUDE START: remote-device-of
def _device_of(rules: Rules, written: Call, kwargs: dict[str, Any]) -> Device:
    """The one device of a call. Throws: ``RuntimeError`` if there are several."""
    found: set[int | str] = {tensor.device.index for tensor in written.tensors}
    if any(tensor.dim() for tensor in written.hosts) and rules.packet not in READS_HOST:
        found.add("cpu")
    if len(found) > 1:
        names = " and ".join(sorted("cpu" if index == "cpu" else f"remote:{index}" for index in found))
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but {rules.name} was given tensors on {names}: move them "
            "by .to(device)"
        )
    if found and found != {"cpu"}:
        return devices[int(found.pop())]
    told = kwargs.get("device")
    return devices[base().current_device() if told is None or told.index is None else told.index]


# LITERALINCLUDE END: remote-device-of
