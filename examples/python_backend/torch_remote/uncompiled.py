"""The base without C++: what PyTorch lets Python register. It has one device, no streams and no allocator."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet

from . import answers, memory
from .device.wire import Layout

DEVICE = torch.device("privateuseone", 0)
CPU = DispatchKeySet(DispatchKey.CPU)
METADATA = ("as_strided", "view", "_reshape_alias", "unfold", "view_as_real", "view_as_complex")
aten = torch.ops.aten
_libraries: list[torch.library.Library] = []


# LITERALINCLUDE START: remote-uncompiled-tensor
def new_storage(nbytes: int) -> torch.UntypedStorage:
    """A storage at an address of the device. Python adds the deleter."""
    address = answers.malloc(nbytes, 0)
    storage: Any = torch._C._construct_storage_from_data_pointer(address, DEVICE, nbytes)
    memory.free_with(storage, address)
    made: torch.UntypedStorage = storage
    return made


def new_tensor(layout: Layout) -> torch.Tensor:
    """A tensor over a storage of its own. The CPU's kernel can set sizes for any device."""
    reach = sum((size - 1) * stride for size, stride in zip(layout.size, layout.stride, strict=True)) + 1
    storage = new_storage(reach * layout.dtype.itemsize if 0 not in layout.size else 0)
    tensor = torch._C._acc.create_empty_tensor((0,), layout.dtype)
    return set_layout(tensor, storage, 0, layout.size, layout.stride)


def set_layout(tensor: torch.Tensor, storage: Any, offset: Any, size: Any, stride: Any = ()) -> torch.Tensor:
    """Makes a tensor a view of a storage."""
    stride = stride or torch.empty(size, device="meta").stride()
    aten.set_.source_Storage_storage_offset.redispatch(CPU, tensor, storage, offset, size, stride)
    return tensor


# LITERALINCLUDE END: remote-uncompiled-tensor


# LITERALINCLUDE START: remote-uncompiled-factories
def empty(size: Any, *, dtype: Any = None, memory_format: Any = None, **options: Any) -> torch.Tensor:
    """The operator behind most new tensors."""
    check(**options)
    like = torch.empty(size, dtype=dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
    return new_tensor(Layout(tuple(size), like.stride(), like.dtype))


def empty_strided(size: Any, stride: Any, *, dtype: Any = None, **options: Any) -> torch.Tensor:
    """The operator behind the others."""
    check(**options)
    return new_tensor(Layout(tuple(size), tuple(stride), dtype or torch.get_default_dtype()))


def check(*, device: Any = None, pin_memory: Any = None, layout: Any = None) -> None:
    """Rejects unsupported options. Throws: ``ValueError``."""
    if pin_memory:
        raise ValueError("remote: only CPU tensors can be pinned: leave pin_memory out, or device")
    if device is not None and device.index not in (None, 0):
        raise ValueError(f"{device} does not exist: without C++ there is one device")


def set_nothing(tensor: torch.Tensor) -> torch.Tensor:
    """``set_()``: an empty tensor."""
    return set_layout(tensor, new_storage(0), 0, (0,))


def set_storage(tensor: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    """``set_(storage)``: all of it."""
    return set_layout(tensor, storage, 0, (storage.nbytes() // tensor.itemsize,))


def set_tensor(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """``set_(tensor)``: the same as another tensor."""
    return set_layout(tensor, source.untyped_storage(), source.storage_offset(), source.size(), source.stride())


# LITERALINCLUDE END: remote-uncompiled-factories


# LITERALINCLUDE START: remote-uncompiled-generator
class Generator:
    """Seed and offset. Python cannot derive from PyTorch's generator, so this one is not for users."""

    device = torch.device(DEVICE)

    def __init__(self) -> None:
        self.manual_seed(torch.default_generator.initial_seed())

    def manual_seed(self, seed: int) -> None:
        """Sets the seed, and resets the offset."""
        self.seed, self.offset = seed % (1 << 64), 0

    def initial_seed(self) -> int:
        """The seed."""
        return self.seed

    def get_offset(self) -> int:
        """How often it was drawn from."""
        return self.offset

    def set_offset(self, offset: int) -> None:
        """Sets how often it was drawn from."""
        self.offset = offset

    def get_state(self) -> torch.Tensor:
        """Seed and offset, in a tensor."""
        return torch.tensor([self.seed, self.offset], dtype=torch.uint64).view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> None:
        """Takes seed and offset from a tensor."""
        self.seed, self.offset = state.view(torch.uint64).tolist()


# LITERALINCLUDE END: remote-uncompiled-generator


# LITERALINCLUDE START: remote-uncompiled-base
class Hooks(torch._C._acc.PrivateUse1Hooks):
    """The hooks that Python can override."""

    def is_available(self) -> bool:
        """Whether there is a device: always."""
        return True  # NOT PROVEN: C++ of libraries calls it

    def has_primary_context(self, index: int) -> bool:
        """Whether the device has been started."""
        return answers.is_started(index)

    def is_built(self) -> bool:
        """Always true: there is nothing to build."""
        return True  # NOT PROVEN: as above


class Guard(torch._C._acc.DeviceGuard):
    """The members of the guard that Python can override."""

    def type_(self) -> Any:
        """The device type of the guard."""
        return torch._C._autograd.DeviceType.PrivateUse1


class Uncompiled:
    """The base without C++."""

    def __init__(self) -> None:
        self.generator = Generator()

    def register(self, module: ModuleType) -> None:
        """Registers everything."""
        torch.utils.backend_registration._setup_privateuseone_for_python_backend("remote", module, Hooks(), Guard())
        library = torch.library.Library("aten", "IMPL")
        _libraries.append(library)
        kernels: dict[str, Any] = {"empty.memory_format": empty, "empty_strided": empty_strided, "set_": set_nothing}
        kernels |= {"set_.source_Storage_storage_offset": set_layout, "set_.source_Storage": set_storage}
        kernels |= {"set_.source_Tensor": set_tensor}
        kernels |= {name: functools.partial(getattr(aten, name).default.redispatch, CPU) for name in METADATA}
        for name, kernel in kernels.items():
            library.impl(name, kernel, "PrivateUse1")
        close_the_gaps()

    def current_device(self) -> int:
        """Always 0: there is one device."""
        return 0

    def set_device(self, index: int) -> None:
        """Does nothing: there is only one device."""

    def current_stream(self, index: int) -> int:
        """Always 0: there is one stream."""
        return 0

    def default_generator(self, index: int) -> Generator:
        """The only generator."""
        return self.generator

    def empty(self, layout: Layout, index: int) -> torch.Tensor:
        """A tensor over new memory."""
        return new_tensor(layout)

    def grow(self, tensor: torch.Tensor, nbytes: int) -> None:
        """Gives this tensor another storage; other views keep the old one."""
        old, new = tensor.untyped_storage(), new_storage(nbytes)
        answers.copy_bytes(new.data_ptr(), old.data_ptr(), old.nbytes())
        set_layout(tensor, new, tensor.storage_offset(), tensor.size(), tensor.stride())

    def set_layout(self, tensor: torch.Tensor, layout: Layout) -> None:
        """Changes the tensor's metadata."""
        set_layout(tensor, tensor.untyped_storage(), tensor.storage_offset(), layout.size, layout.stride)


# LITERALINCLUDE END: remote-uncompiled-base


# LITERALINCLUDE START: remote-uncompiled-refused
def close_the_gaps() -> None:
    """Raises before PyTorch would crash: it uses the allocators without checking that they exist."""
    make: Any = torch.UntypedStorage.__new__

    def checked(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is not None and torch.device(device).type == "remote":
            raise NotImplementedError(
                "remote: without C++ there is no allocator, so there is no storage by itself, and neither deepcopy nor "
                "torch.load makes tensors of the device: let them make tensors of the CPU, or use the compiled base"
            )
        return make(cls, *args, **kwargs, **({} if device is None else {"device": device}))

    torch.UntypedStorage.__new__ = checked  # type: ignore[method-assign]
    torch._C._accelerator_emptyHostCache = lambda: None  # no memory is pinned, so none is kept


# LITERALINCLUDE END: remote-uncompiled-refused
