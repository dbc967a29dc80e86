"""Generated C++ that calls the kernels of a graph: Inductor's for the CPU, with launches for the device's kernels."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch._inductor import ir
from torch._inductor.codegen import cpp_utils
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.utils import IndentedBuffer, Placeholder, make_codegen_buffer
from torch._inductor.virtualized import V

from torch_openreg import _C
from torch_openreg.compile.c_shims import c_shims
from torch_openreg.compile.entry_point import ARGUMENT, entry_point
from torch_openreg.compile.wrapper import DeviceWrapper

# LITERALINCLUDE START: cpp-wrapper-class
# Both are in the installed package, beside the bindings.
HEADER = Path(_C.__file__).parent / "include" / "generated_code.h"
_LIBRARY = Path(_C.__file__).parent / "lib" / "libtorch_openreg.so"

# What generated C++ calls the device.
cpp_utils.DEVICE_TO_ATEN["openreg"] = "at::kPrivateUse1"


class CppWrapper(DeviceWrapper, CppWrapperCpu):
    """The generated library of a graph."""

    def __init__(self) -> None:
        self.device = "openreg"
        if not HEADER.is_file():
            raise NotImplementedError(  # NOT PROVEN: tests/compile/test_cpp_wrapper.py takes the header away
                f"openreg: generated C++ includes {HEADER}, which this build does not install: add "
                "csrc/aten/generated_code.h and generated_code.cpp, or use torch.compile without cpp_wrapper"
            )
        super().__init__()  # type: ignore[no-untyped-call]
        # It is in the process already, so the path is needed by the linker alone, whose command PyTorch splits.
        self.external_kernel_libs.add(shlex.quote(str(_LIBRARY)))
        self._has_argument = False

    @staticmethod
    def get_device_include_path_jit(device: str) -> str:
        """The headers for a device. Those for this one come after the CPU's, which PyTorch compiles in advance."""
        if device != "openreg":
            return str(CppWrapperCpu.get_device_include_path_jit(device))
        of_cpu = CppWrapperCpu.get_device_include_path_jit("cpu")
        # A compiled library is found again by its source, which therefore names the contents of the header, too.
        contents = hashlib.sha256(HEADER.read_bytes()).hexdigest()
        return f'{of_cpu}\n#include "{HEADER}"  // {contents}\nusing namespace openreg;'

    def _generate_end_jit(self, result: IndentedBuffer) -> None:
        # The compiler's options and the header that is compiled in advance are those for the CPU.
        self.device = "cpu"
        super()._generate_end_jit(result)  # type: ignore[no-untyped-call]

    # LITERALINCLUDE END: cpp-wrapper-class

    # LITERALINCLUDE START: cpp-wrapper-kernels
    def define_generated(self, name: str, source: str, cpp_types: Sequence[str]) -> None:
        """Writes a kernel's source and the declaration of its entry point, which has the kernel's name."""
        loops = f"{name}_loops"
        text = source.replace(str(Placeholder.KERNEL_NAME), loops) + entry_point(name, loops, cpp_types)
        if not self._has_argument:
            self._has_argument = True
            text = f"{ARGUMENT}\n{text}"
        declaration = f'union CompiledArgument;\nextern "C" void {name}(const CompiledArgument* arguments);'
        self.define_kernel(name, text, gpu=False, cpp_definition=declaration)

    def _generate_kernel_call_helper(
        self,
        kernel_name: str,
        call_args: Any,
        *,
        device: torch.device | None = None,
        arg_types: Any = None,
        **others: Any,
    ) -> None:
        device = device or V.graph.get_current_device_or_throw()
        if device.type != "openreg":
            named = {"device": device, "arg_types": arg_types, **others}
            super()._generate_kernel_call_helper(kernel_name, call_args, **named)
            return
        values = ", ".join(_value(*each) for each in zip(call_args, arg_types, strict=True))
        entry = f'reinterpret_cast<void*>({kernel_name}), "{kernel_name}"'
        launch = f"openreg_launch_generated({entry}, {device.index}, arguments, {len(call_args)})"
        self.writeline(f"{{ const GeneratedValue arguments[] = {{{values}}};")  # type: ignore[no-untyped-call]
        self.writeline(f"  AOTI_TORCH_ERROR_CODE_CHECK({launch}); }}")  # type: ignore[no-untyped-call]

    # LITERALINCLUDE END: cpp-wrapper-kernels

    # LITERALINCLUDE START: cpp-wrapper-allocation
    def allocate(self, name: str, dtype: torch.dtype, shape: Sequence[Any], stride: Sequence[Any]) -> str:
        """Writes a call of the C function that the factories use, and the owner of what it returns."""
        form = [str(len(shape)), self._array(shape), self._array(stride), self.codegen_dtype(dtype)]  # type: ignore[no-untyped-call]
        allocate = f"openreg_empty_strided({', '.join(form)}, &{name}_handle)"
        self.wrapper_call.writeline(f"AtenTensorHandle {name}_handle;")
        self.wrapper_call.writeline(f"AOTI_TORCH_ERROR_CODE_CHECK({allocate});")
        return f"RAIIAtenTensorHandle {name}({name}_handle);"

    def _array(self, numbers: Sequence[Any]) -> str:
        return self.codegen_int_array_var(
            self.codegen_shape_tuple(numbers),
            self.wrapper_call.writeline,
            known_statically=self.is_statically_known_list_of_ints(numbers),  # type: ignore[no-untyped-call]
            graph=self.get_codegened_graph(),  # type: ignore[no-untyped-call]
        )

    # LITERALINCLUDE END: cpp-wrapper-allocation

    # LITERALINCLUDE START: cpp-wrapper-operators
    def finalize_prefix(self) -> None:
        """Adds the C functions of the operators that the code calls."""
        functions = c_shims(self.prefix.getvalue() + self.wrapper_call.getvalue())
        super().finalize_prefix()  # type: ignore[no-untyped-call]
        rest, self.prefix = self.prefix, make_codegen_buffer()
        self.prefix.splice(functions)
        self.prefix.splice(rest)

    # LITERALINCLUDE END: cpp-wrapper-operators

    # LITERALINCLUDE START: cpp-wrapper-refused
    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: PythonWrapperCodegen | None,
        partition_signatures: ir.GraphPartitionSignature | None = None,
    ) -> PythonWrapperCodegen:
        """Makes the wrapper of a graph.

        Raises:
            NotImplementedError: for a model that AOTInductor shall load.
        """
        if V.graph.aot_mode:
            # The wrapper alone would not help: the model would compile, and throw when it is loaded.
            raise NotImplementedError(
                "openreg: the runtime of AOTInductor loads models for cpu, cuda, xpu and mps alone (parse_device_str "
                "in torch/csrc/inductor/aoti_runtime/model_base.h); save the program with torch.export.save, and "
                "compile it with torch.compile where it is loaded"
            )
        return CppWrapper()

    def codegen_cuda_stream_enter(self, stream_idx: int) -> NoReturn:
        """Begins a block of the program's stream, which Inductor can write in Python alone.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "openreg: with cpp_wrapper, Inductor cannot write the streams of a compiled function; use the stream "
            "outside of it, or torch.compile without cpp_wrapper (TORCHINDUCTOR_CPP_WRAPPER=0)"
        )

    # LITERALINCLUDE END: cpp-wrapper-refused


# LITERALINCLUDE START: cpp-wrapper-value
def _value(argument: Any, cpp_type: str) -> str:
    """The C++ expression of an argument: a tensor for a pointer, or else a number."""
    kind, of_kind = "real", "double"
    if cpp_type.endswith("*"):
        kind, of_kind = "tensor", "AtenTensorHandle"
    elif "int64_t" in cpp_type:
        kind, of_kind = "integer", "int64_t"
    return f"{{.kind = GeneratedValue::Kind::{kind}, .{kind} = static_cast<{of_kind}>({argument})}}"


# LITERALINCLUDE END: cpp-wrapper-value
