"""The operators that need more than a call: copies, resizing, and those without a CPU kernel in PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import _HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS, _higher_order_ops

from .base import base
from .calls import call, launch, places, resize
from .device import wire
from .device.wire import Layout, Outcome
from .devices import devices

aten = torch.ops.aten
_libraries: list[torch.library.Library] = []  # a registration lives as long as its library


# LITERALINCLUDE START: remote-copies
def fetch(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a device tensor, in a new CPU tensor. Waits for them."""
    index = tensor.device.index
    written = wire.write(tensor)
    stream = base().current_stream(index)
    body, buffers = devices[index].ask("fetch", stream, written.body, places(written))
    values: torch.Tensor = wire.read(body, buffers=buffers)
    return values


def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Every copy to or from a device. Data leaves the host by value, so a copy to the device never waits."""
    if target.is_cpu:
        return target.copy_(fetch(source))
    if source.device != target.device:
        source = source if source.is_cpu else fetch(source)
        # Fewer bytes travel in the smaller of the two dtypes, and the target has no more precision anyway.
        source = source.to(target.dtype) if target.itemsize < source.itemsize else source
    written = wire.write(("aten.copy_.default", [target, source], {}, torch.get_default_dtype()))
    launch(written, Outcome(None, {}), devices[target.device.index])
    return target


def copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Resizes the target to the size of the source, then copies."""
    return copy_from(source, target.resize_(source.size()))


def local_scalar_dense(tensor: torch.Tensor) -> Any:
    """``item()``."""
    return fetch(tensor).item()


# LITERALINCLUDE END: remote-copies


# LITERALINCLUDE START: remote-tensor-resize
def resize_(tensor: torch.Tensor, size: list[int], memory_format: torch.memory_format | None = None) -> torch.Tensor:
    """Resizes a tensor; its strides are those of a new tensor."""
    if list(tensor.size()) != list(size) or memory_format is not None:
        like = torch.empty(size, device="meta", memory_format=memory_format or torch.contiguous_format)
        resize(tensor, Layout(tuple(size), like.stride(), tensor.dtype))
    return tensor


# LITERALINCLUDE END: remote-tensor-resize


# LITERALINCLUDE START: remote-may-become
def may_become(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a tensor can take over the memory and device of another one, and stay the same object.

    ``module.to()`` calls it for each parameter. PyTorch's own answer is no, with which a weight that two modules share
    becomes two weights.
    """
    return all(
        type(one) in (torch.Tensor, torch.nn.Parameter) and one.layout is torch.strided for one in (tensor, other)
    )


# LITERALINCLUDE END: remote-may-become


# LITERALINCLUDE START: remote-convolution
def convolution(*arguments: Any) -> Any:
    """PyTorch calls this operator, which has no kernel, for accelerators. ``convolution`` takes the same arguments."""
    return call(aten.convolution.default, *arguments)


def convolution_backward(grad: Any, image: Any, weight: Any, *rest: Any) -> Any:
    """The same for the derivative. The bias has one element per output channel."""
    channels = [grad.size(image.dim() - weight.dim() + 1)]  # NOT PROVEN: runs on a thread of autograd, not traced
    return call(aten.convolution_backward.default, grad, image, weight, channels, *rest)  # NOT PROVEN: as above


# LITERALINCLUDE END: remote-convolution


# LITERALINCLUDE START: remote-cells
def lstm_cell(gates_in: Any, gates_hidden: Any, cell: Any, bias_in: Any = None, bias_hidden: Any = None) -> Any:
    """One step of an LSTM. PyTorch assumes that every accelerator has one kernel for it."""
    gates = gates_in + gates_hidden
    for bias in (bias_in, bias_hidden):
        gates = gates if bias is None else gates + bias
    take, forget, candidate, give = gates.chunk(4, 1)
    new = forget.sigmoid() * cell + take.sigmoid() * candidate.tanh()
    return give.sigmoid() * new.tanh(), new, gates


def gru_cell(gates_in: Any, gates_hidden: Any, hidden: Any, bias_in: Any = None, bias_hidden: Any = None) -> Any:
    """One step of a GRU."""
    gates_in = gates_in if bias_in is None else gates_in + bias_in
    gates_hidden = gates_hidden if bias_hidden is None else gates_hidden + bias_hidden
    (reset, update, new), (reset2, update2, new2) = gates_in.chunk(3, 1), gates_hidden.chunk(3, 1)
    reset, update = (reset + reset2).sigmoid(), (update + update2).sigmoid()
    candidate = (new + reset * new2).tanh()
    return (hidden - candidate) * update + candidate, gates_hidden


# LITERALINCLUDE END: remote-cells


# LITERALINCLUDE START: remote-autocast
LOWER = ("mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "conv1d", "conv2d", "conv3d",
         "scaled_dot_product_attention")  # fmt: skip
EXACT = ("softmax", "log_softmax", "layer_norm", "group_norm", "sum", "prod", "cumsum", "cumprod", "norm", "exp", "log",
         "pow", "mse_loss", "nll_loss", "cross_entropy_loss")  # fmt: skip


def autocast(op: Callable[..., Any], dtype: torch.dtype | None) -> Callable[..., Any]:
    """The operator with its floating-point tensors cast to a dtype; None means that of the autocast region."""

    def cast(value: Any) -> Any:
        is_cast = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64
        return value.to(dtype or torch.get_autocast_dtype("remote")) if is_cast else value

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
            return op(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})

    return kernel


# LITERALINCLUDE END: remote-autocast


PARTICULAR = {
    "_copy_from": copy_from,
    "_copy_from_and_resize": copy_from_and_resize,
    "_local_scalar_dense": local_scalar_dense,
    "resize_": resize_,
    "convolution_overrideable": convolution,
    "convolution_backward_overrideable": convolution_backward,
    # PyTorch's tensor of zeros without memory could not be read by kernels of the device.
    "_efficientzerotensor": lambda size, **options: torch.zeros(size, **options),
    # Memory is freed once every stream has reached that point, so it does not matter which streams used it.
    "record_stream": lambda tensor, stream: None,
}


# LITERALINCLUDE START: remote-registration
def register() -> None:
    """Registers the one fallback, and the operators that need more."""
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(call, "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    library = torch.library.Library("aten", "IMPL")
    _libraries.extend([everything, library])
    for name, kernel in PARTICULAR.items():
        library.impl(name, kernel, "PrivateUse1")
    # At the autograd key they replace the derivative of the cell, so autograd differentiates the operators inside.
    library.impl("_thnn_fused_lstm_cell", lstm_cell, "AutogradPrivateUse1")
    library.impl("_thnn_fused_gru_cell", gru_cell, "AutogradPrivateUse1")
    # These have a kernel of PyTorch's own for all devices, which takes precedence over a fallback: it would compute the
    # size of the result and call the variant with out=, which computes the size again.
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CompositeExplicitAutogradNonFunctional"):
        packet, _, overload = name.removeprefix("aten::").partition(".")
        op = getattr(getattr(aten, packet), overload or "default")
        library.impl(name.removeprefix("aten::"), functools.partial(call, op), "PrivateUse1")
    # Otherwise copying x.conj() would first copy x.conj() to resolve it, and so on without end.
    for key in ("Conjugate", "Negative"):
        library.impl("_copy_from", torch.library.fallthrough_kernel, key)
    for name in LOWER + EXACT:
        packet = getattr(aten, name)
        for op in (getattr(packet, overload) for overload in packet.overloads() if "out" not in overload):
            kernel = autocast(op, torch.float32 if name in EXACT else None)
            library.impl(op.name().removeprefix("aten::"), kernel, "AutocastPrivateUse1")
    # Operators that take functions, such as torch.cond, are Python's: they pass autocast by a list of their own.
    autocast_key = torch._C.DispatchKey.AutocastPrivateUse1
    _HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(autocast_key)
    for operator in _higher_order_ops.values():
        operator.fallthrough(autocast_key)
    for key in ("PrivateUse1", "AutogradPrivateUse1"):
        library.impl("_has_compatible_shallow_copy_type", may_become, key)


# LITERALINCLUDE END: remote-registration
