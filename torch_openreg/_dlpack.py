"""DLPack for tensors on the device: where PyTorch knows only its own devices, its functions are completed.

PyTorch 2.13 compares a device's name with "privateuse1", which no backend has once it is renamed, and orders streams
for CUDA alone. Four functions are replaced, for tensors and arrays of this device only. Where a function has a
signature, its replacement checks first that it replaces what it was written for.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack
from torch.overrides import handle_torch_function, has_torch_function_unary
from torch.utils import _device as default_device
from torch.utils.dlpack import DLDeviceType

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init


# LITERALINCLUDE START: dlpack-complete
def complete_dlpack() -> None:
    """Makes `torch.from_dlpack`, `torch.asarray`, `__dlpack__` and `__dlpack_device__` work for the device.

    Parameters that a replacement does not use pass through it, also those that a later release adds.

    Raises:
        RuntimeError: if this PyTorch defines one of them elsewhere, or with other parameters at the beginning.
    """
    tensor_class: Any = torch.Tensor
    device = _original(tensor_class, "__dlpack_device__", "torch._tensor", "self")
    export = _original(tensor_class, "__dlpack__", "torch._tensor", "self stream")
    consume = _original(torch.utils.dlpack, "from_dlpack", "torch.utils.dlpack", "ext_tensor")
    tensor_class.__dlpack_device__ = _device_function(device)
    tensor_class.__dlpack__ = _export_function(export)
    torch.utils.dlpack.from_dlpack = torch.from_dlpack = _import_function(consume)  # type: ignore[attr-defined]
    torch.asarray = _asarray_function(torch.asarray)
    # The functions that a default device is for, by identity.
    default_device._device_constructors().add(torch.asarray)


def _original(owner: Any, name: str, module: str, parameters: str) -> Callable[..., Any]:
    function: Callable[..., Any] | None = vars(owner).get(name)
    found = "missing"
    if function is not None:
        found = f"{function.__module__}.{name}({' '.join(inspect.signature(function).parameters)})"
        if found.removesuffix(")").startswith(f"{module}.{name}({parameters}"):
            return function
    raise RuntimeError(
        f"openreg: {owner.__name__}.{name} of torch {torch.__version__} is {found}, and the backend replaces "
        f"{module}.{name}({parameters} ...); see torch_openreg/_dlpack.py"
    )


# LITERALINCLUDE END: dlpack-complete


# LITERALINCLUDE START: dlpack-device
def _is_ours(tensor: torch.Tensor) -> bool:
    # PyTorch's function handles subclasses that override functions: it calls this one again for the tensor inside.
    return tensor.device.type == "openreg" and not has_torch_function_unary(tensor)


def _device_function(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def device_of(self: torch.Tensor) -> tuple[DLDeviceType, int]:
        return (DLDeviceType.kDLExtDev, self.device.index) if _is_ours(self) else original(self)

    return device_of


# LITERALINCLUDE END: dlpack-device


# LITERALINCLUDE START: dlpack-export
def _export_function(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def exported(self: torch.Tensor, *, stream: Any = -1, **options: Any) -> Any:
        export = functools.partial(original, self, stream=stream, **options)
        if not _is_ours(self) or (stream is not None and type(stream) is not int):
            return export()
        if self.is_neg():
            raise BufferError("Can't export tensors with the negative bit set")
        if stream == -1:
            return export()
        consumer = _consumer_stream(stream, self.device)
        consumer.wait_stream(_C._current_stream(self.device.index))
        self.record_stream(consumer)
        with consumer:  # where a copy is made, if there is one: its memory then belongs to this stream
            return export()

    return exported


def _consumer_stream(stream: int | None, device: torch.device) -> torch.Stream:
    consumer = _C._external_stream(stream) if stream else _C._default_stream(device.index)
    if consumer.device != device:
        raise BufferError(
            f"Can't export a tensor on {device} to a stream of {consumer.device}: pass a stream of the tensor's device"
        )
    return consumer


# LITERALINCLUDE END: dlpack-export


# LITERALINCLUDE START: dlpack-import
class _OnCurrentStream:
    """An array of another library, exported for the stream that is current here; `torch.from_dlpack` names none."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._array.__dlpack_device__()
        return device

    def __dlpack__(self, **arguments: Any) -> Any:
        stream: Any = _C._current_stream(self.__dlpack_device__()[1])  # PyTorch's annotations lack native_handle
        capsule = self._array.__dlpack__(stream=stream.native_handle, **arguments)
        _C._prepare_dlpack_import(capsule)
        return capsule


def _import_function(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def from_dlpack(ext_tensor: Any, **options: Any) -> torch.Tensor:
        if not hasattr(ext_tensor, "__dlpack__"):
            _C._prepare_dlpack_import(ext_tensor)
        elif not isinstance(ext_tensor, torch.Tensor) and ext_tensor.__dlpack_device__()[0] == DLDeviceType.kDLExtDev:
            _lazy_init()
            ext_tensor = _OnCurrentStream(ext_tensor)
        tensor: torch.Tensor = original(ext_tensor, **options)
        return tensor

    return from_dlpack


def _asarray_function(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(original)
    def asarray(obj: Any, **options: Any) -> torch.Tensor:
        if has_torch_function_unary(obj):  # a mode, or a subclass, is given this function, which programs compare
            return handle_torch_function(asarray, (obj,), obj, **options)
        _C._prepare_dlpack_import(obj)  # which leaves everything but a capsule for the device as it is
        return original(obj, **options)

    return asarray


# LITERALINCLUDE END: dlpack-import
