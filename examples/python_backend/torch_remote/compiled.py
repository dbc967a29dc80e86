"""The base with C++ (``csrc``): allocator, guard, hooks and generator, which in turn call Python."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import torch

from . import answers
from .device.wire import Layout

try:
    glue: Any = importlib.import_module("torch_remote_glue")
except ModuleNotFoundError as error:
    raise ImportError(
        "remote: torch_remote_glue, the C++ of the backend, is not compiled: install the package, or run "
        "`python glue.py` in its folder and add build/ to PYTHONPATH; TORCH_REMOTE_BASE=uncompiled does without"
    ) from error


# LITERALINCLUDE START: remote-compiled
class Compiled:
    """The base with C++."""

    def register(self, module: ModuleType) -> None:
        """Registers name, device module and hooks. The library registers the rest when it is loaded."""
        torch.utils.rename_privateuse1_backend("remote")
        torch._register_device_module("remote", module)
        torch.utils.generate_methods_for_privateuse1_backend()
        glue.register(answers)

    def current_device(self) -> int:
        """The index of this thread's current device."""
        return int(glue.current_device())

    def set_device(self, index: int) -> None:
        """Makes a device current for this thread."""
        torch.accelerator.set_device_index(index)

    def current_stream(self, index: int) -> int:
        """The number of this thread's current stream."""
        return int(glue.current_stream(index))

    def default_generator(self, index: int) -> torch.Generator:
        """The generator that C++ keeps."""
        found: torch.Generator = glue.default_generator(index)
        return found

    def empty(self, layout: Layout, index: int) -> torch.Tensor:
        """A tensor from the allocator."""
        device = torch.device("remote", index)
        return torch.empty_strided(layout.size, layout.stride, dtype=layout.dtype, device=device)

    def grow(self, tensor: torch.Tensor, nbytes: int) -> None:
        """Grows the storage for all of its views."""
        tensor.untyped_storage().resize_(nbytes)

    def set_layout(self, tensor: torch.Tensor, layout: Layout) -> None:
        """Changes the tensor's metadata."""
        storage, offset = tensor.untyped_storage(), tensor.storage_offset()
        torch.ops.aten.set_.source_Storage_storage_offset(tensor, storage, offset, layout.size, layout.stride)


# LITERALINCLUDE END: remote-compiled
