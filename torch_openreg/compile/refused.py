"""An output of Inductor that the backend does not support. Inductor needs a class for it: this one raises an error."""

from __future__ import annotations

from typing import Any, NoReturn

from torch._inductor.codegen.wrapper import PythonWrapperCodegen


# LITERALINCLUDE START: compile-refused
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
