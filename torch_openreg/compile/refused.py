"""Two outputs of Inductor that the backend does not support. Inductor requires a class for each: these raise errors."""

from __future__ import annotations

from typing import Any, NoReturn

from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.virtualized import V


# LITERALINCLUDE START: compile-refused
class CppWrapperCodegen(PythonWrapperCodegen):
    """Stands for generated C++ that calls kernels: `cpp_wrapper` and AOTInductor."""

    @staticmethod
    def create(*_: Any) -> NoReturn:
        """Raises NotImplementedError, before any code is generated."""
        if V.graph.aot_mode:
            # The functions alone would not help: the model would compile, and throw when it is loaded.
            raise NotImplementedError(
                "openreg: the runtime of AOTInductor loads models for cpu, cuda, xpu and mps alone (parse_device_str "
                "in torch/csrc/inductor/aoti_runtime/model_base.h); save the program with torch.export.save, and "
                "compile it with torch.compile where it is loaded"
            )
        raise NotImplementedError(
            "openreg: cpp_wrapper generates C++ that calls each operator of the device as "
            "aoti_torch_openreg_<operator>, and the backend has no such functions; use torch.compile without "
            "cpp_wrapper (TORCHINDUCTOR_CPP_WRAPPER=0)"
        )


class FxWrapperCodegen(PythonWrapperCodegen):
    """Stands for a graph of kernel calls: `fx_wrapper`."""

    @staticmethod
    def create(*_: Any) -> NoReturn:
        """Raises NotImplementedError, before any code is generated."""
        raise NotImplementedError(
            "openreg: fx_wrapper puts the calls of Triton kernels into a graph, and the device's kernels are C++; use "
            "torch.compile without fx_wrapper (torch._inductor.config.fx_wrapper = False)"
        )


# LITERALINCLUDE END: compile-refused
