"""The generated Python that calls the kernels of a graph: Inductor's, with launches for the device's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import config, ir
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.utils import Placeholder
from torch._inductor.virtualized import V

from torch_openreg.compile.entry_point import library


# LITERALINCLUDE START: compile-wrapper
class DeviceWrapper(PythonWrapperCodegen):
    """What the wrappers in Python and in C++ have in common."""

    def define_generated(self, name: str, source: str, cpp_types: Sequence[str]) -> None:
        """Writes the source of a kernel.

        Args:
            name: what the wrapper calls the kernel.
            source: C++ of a function, with a placeholder for its name.
            cpp_types: those of the function's parameters.
        """
        raise NotImplementedError  # NOT PROVEN: each wrapper has its own

    def allocate(self, name: str, dtype: torch.dtype, shape: Sequence[Any], stride: Sequence[Any]) -> str:
        """Writes the allocation of a tensor on the device.

        Args:
            name: that of the tensor in the generated code.
            dtype: its dtype.
            shape: its sizes, numbers or symbols.
            stride: its strides, in elements.
        """
        raise NotImplementedError  # NOT PROVEN: each wrapper has its own

    def make_allocation(
        self,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
        shape: Sequence[Any],
        stride: Sequence[Any],
        allocation_shape: Sequence[Any] | None = None,
        *others: Any,
        **named: Any,
    ) -> str:
        """Writes the allocation of a buffer, which may be larger than the tensor that the graph sees."""
        larger = allocation_shape is not None and allocation_shape != shape
        if device.type != "openreg" or larger or config.test_configs.track_memory_lifecycle:
            rest = (shape, stride, allocation_shape, *others)
            return str(super().make_allocation(name, device, dtype, *rest, **named))  # type: ignore[no-untyped-call]
        return self.allocate(name, dtype, shape, stride)

    def can_reuse(self, input_buffer: Any, output_buffer: Any = None) -> bool:
        """Whether the memory of a buffer may become that of another one.

        Not in a graph with blocks of the program's streams: a buffer that one stream writes may still be read on
        another, since Inductor looks at the order of the calls alone.
        """
        if V.graph.scheduler._has_multi_stream_nodes():
            return False
        return bool(super().can_reuse(input_buffer, output_buffer))  # type: ignore[no-untyped-call]

    def codegen_free(self, buffer: Any) -> None:
        """Ends the life of a buffer. In a graph with several streams it ends with the function."""
        if not V.graph.scheduler._has_multi_stream_nodes():
            super().codegen_free(buffer)  # type: ignore[no-untyped-call]

    def codegen_cuda_stream_exit(self) -> None:
        """Ends a block of the program's stream, after the calls of its kernels."""
        V.graph.scheduler.flush()
        super().codegen_cuda_stream_exit()

    def codegen_device_guard_enter(self, *arguments: Any, **options: Any) -> None:
        """Begins a block in which a device is current.

        With `autotune_at_compile_time`, which `standalone_compile` sets, Inductor writes it a second time, for kernels
        of Triton that are measured while it compiles. There are none here.
        """
        with config.patch({"triton.autotune_at_compile_time": False}):
            super().codegen_device_guard_enter(*arguments, **options)

    def codegen_device_guard_exit(self) -> None:
        """Ends a block in which a device is current, after the calls of its kernels."""
        V.graph.scheduler.flush()
        with config.patch({"triton.autotune_at_compile_time": False}):
            super().codegen_device_guard_exit()

    def generate_fallback_kernel(self, node: ir.FallbackKernel) -> None:
        """Writes the call of an operator, after the calls of the kernels before it.

        Inductor's scheduler sees to that only where the operator has a device. An operator of streams and events has
        none.
        """
        _write_kernels()
        super().generate_fallback_kernel(node)

    def generate_fallback_kernel_with_runtime_lookup(self, *arguments: Any, **named: Any) -> None:
        """The same for an operator that generated C++ finds when it runs."""
        _write_kernels()  # NOT PROVEN: for wrappers in C++
        base: Any = super()  # NOT PROVEN: as above
        base.generate_fallback_kernel_with_runtime_lookup(*arguments, **named)  # NOT PROVEN: as above


def _write_kernels() -> None:
    """Writes the calls of the kernels so far; not, as a flush of the scheduler does, the end of the inputs' lives."""
    for scheduling in V.graph.scheduler.backends.values():
        scheduling.flush()


class _Launches(DeviceWrapper):
    """Writes the call of a device kernel. A kernel of the CPU, in the same graph, is called as always."""

    def define_generated(self, name: str, source: str, cpp_types: Sequence[str]) -> None:
        """Writes the expression that compiles a kernel when the generated module is loaded."""
        text = library(source.replace(str(Placeholder.KERNEL_NAME), "generated"), cpp_types)
        self.define_kernel(
            name, f"generated_kernel({name!r}, compiled_library(async_compile, r'''{text}'''))", gpu=False
        )

    def _generate_kernel_call_helper(
        self, kernel_name: str, call_args: Any, *, device: torch.device | None = None, **others: Any
    ) -> None:
        device = device or V.graph.get_current_device_or_throw()
        if device.type == "openreg":
            call = self.wrap_kernel_call(kernel_name, [str(device.index), *call_args])  # type: ignore[no-untyped-call]
            self.writeline(call)  # type: ignore[no-untyped-call]
        else:
            super()._generate_kernel_call_helper(kernel_name, call_args, device=device, **others)

    def allocate(self, name: str, dtype: torch.dtype, shape: Sequence[Any], stride: Sequence[Any]) -> str:
        """Writes a call of the function that the factories use."""
        sizes, strides = (self.codegen_python_shape_tuple(each) for each in (shape, stride))
        return f"{name} = empty_strided_openreg({sizes}, {strides}, {dtype})"


class Wrapper(_Launches):
    """The generated module of a graph."""

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: PythonWrapperCodegen | None,
        partition_signatures: ir.GraphPartitionSignature | None = None,
    ) -> PythonWrapperCodegen:
        """Makes the wrapper of a graph, or of a graph within one: a branch of `torch.cond`, for example."""
        if is_subgraph:
            assert subgraph_name is not None
            assert parent_wrapper is not None
            return _SubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return Wrapper()  # type: ignore[no-untyped-call]

    def write_header(self) -> None:
        """Writes the imports of the generated module."""
        super().write_header()
        names = "DeviceGuard, compiled_library, empty_strided_openreg, generated_kernel"
        self.header.splice(f"from torch_openreg.compile.kernel import {names}")


class _SubgraphWrapper(_Launches, SubgraphPythonWrapperCodegen):
    """The generated function of a graph within a graph."""


# LITERALINCLUDE END: compile-wrapper
