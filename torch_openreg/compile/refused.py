"""Outputs of Inductor that the backend does not support. Inductor needs a class for each: these raise an error."""

from __future__ import annotations

from typing import Any, NoReturn

from torch._inductor.codegen.wrapper import PythonWrapperCodegen

from torch_openreg.compile.registration import INDUCTOR_NAMES


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


# LITERALINCLUDE START: compile-refusing
def refusing(fault: str) -> dict[str, type]:
    """A class for all four names, where Inductor cannot be used: a graph of the device raises the error.

    Args:
        fault: the message of the error.
    """

    class Refused(PythonWrapperCodegen):
        def __init__(self, *_: Any) -> None:
            raise RuntimeError(fault)

        @staticmethod
        def create(*_: Any) -> NoReturn:
            raise RuntimeError(fault)

    return dict.fromkeys(INDUCTOR_NAMES, Refused)


# LITERALINCLUDE END: compile-refusing
