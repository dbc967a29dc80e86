"""Generated kernels at run time: the code that Inductor writes imports this module, also from its cache.

A cache may hold code of an earlier version of this package; `cache_key` keeps it from being used.
"""

from __future__ import annotations

import ctypes
import shutil
from typing import Any

import torch
from torch._inductor.async_compile import AsyncCompile, get_compile_threads, kernel_code_log
from torch._inductor.codecache import CodeCacheFuture, CppCodeCache, LambdaFuture
from torch._inductor.utils import clear_on_fresh_cache

from torch_openreg import _C
from torch_openreg.openreg.device import device
from torch_openreg.openreg.streams import current_stream

# A new tensor of the current device, for sizes, strides and dtype, without the dispatcher: no observer sees the call.
empty_strided_openreg = _C._empty_strided


def expect_launcher() -> None:
    """Checks that generated C++ can run on the device.

    Raises:
        NotImplementedError: if nothing in this build can launch it.
    """
    if not _C._can_launch_compiled():
        raise NotImplementedError(
            "openreg: generated C++ is code for the host, and nothing in this build runs host code on the device "
            "(HOST_KERNELS=OFF); use torch.compile with the backend 'aot_eager'"
        )


# LITERALINCLUDE START: compile-library
@clear_on_fresh_cache
class _Libraries(CppCodeCache):
    """Compiles libraries, and compiles the header that all of them include once, as Inductor does for the CPU."""

    cache: dict[str, Any] = {}  # noqa: RUF012 - declared so by the base class
    cache_clear = staticmethod(cache.clear)

    @classmethod
    def _get_uncompiled_header(cls, device: str) -> str | None:
        # Inductor has the program openssl compute the checksum of such a header.
        return "torch/csrc/inductor/cpp_prefix.h" if shutil.which("openssl") else None


def compiled_library(compiler: AsyncCompile, source: str) -> Any:
    """`AsyncCompile.cpp` with that header: the entry point of a library, or a future where other threads compile it."""
    kernel_code_log.info("CPP Kernel:\n%s", source)
    if get_compile_threads() <= 1:
        return _Libraries.load(source).kernel
    library = _Libraries.load_async(source, submit_fn=compiler.submit)
    return LambdaFuture(lambda: library().kernel)


# LITERALINCLUDE END: compile-library


# LITERALINCLUDE START: compile-kernel-object
class GeneratedKernel:
    """A function of a generated library, which a call queues on the device's current stream.

    Args:
        name: the name in profiles and errors.
        function: the entry point of the library. Inductor never unloads a library.
    """

    def __init__(self, name: str, function: Any) -> None:
        self._name = name
        self._entry = ctypes.cast(function, ctypes.c_void_p).value

    def __call__(self, device: int, *arguments: torch.Tensor | int | float) -> None:
        """Queues the kernel on the device with this index.

        Raises:
            RuntimeError: if a tensor is on another device, or is a CPU tensor of more than one element.
        """
        _C._launch_compiled(self._entry, self._name, device, arguments)


def generated_kernel(name: str, library: Any) -> GeneratedKernel | CodeCacheFuture:
    """What generated code assigns to a kernel's name; a future if the library is still being compiled."""
    if isinstance(library, CodeCacheFuture):
        return LambdaFuture(lambda: GeneratedKernel(name, library.result()))
    return GeneratedKernel(name, library)


class DeviceGuard(device):
    """`torch.openreg.device` without its checks, which would be repeated at each call of the generated code.

    Args:
        index: a device that exists. The call has arguments or results there, so it is in use.
    """

    def __init__(self, index: int) -> None:
        self._index = index
        self._previous = []

    def __enter__(self) -> None:
        self._previous.append(_C._exchange_device(self._index))


# LITERALINCLUDE END: compile-kernel-object


def get_raw_stream(device: int) -> int:
    """The driver's handle of the device's current stream."""
    return int(current_stream(device).native_handle)  # type: ignore[attr-defined]
