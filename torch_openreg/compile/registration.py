"""Registers the device with the compiler without importing the compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from torch_openreg.compile.after_import import after_import
from torch_openreg.openreg._absent import LATE

# LITERALINCLUDE START: compile-registration
# Inductor looks these up on the device module. All four, or it takes none of them.
INDUCTOR_NAMES = ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen")


@cache  # the function below may be called twice
def _register_with_dynamo() -> None:
    from torch_openreg.compile.dynamo import register

    register()


@cache
def _register_own_compiler() -> None:
    from torch._dynamo.backends.registry import register_backend

    register_backend(_compile_graph, name="openreg")


def _compile_graph(graph: Any, inputs: Any) -> Callable[..., Any]:
    from torch_openreg.compile.own_compiler import compile_graph

    return compile_graph(graph, inputs)


def _inductor_class(name: str) -> type:
    from torch_openreg.compile.inductor import CLASSES

    return CLASSES[name]


@cache
def _register_flex_attention() -> None:
    from torch_openreg.compile.flex_attention import register

    register()


def register_with_compiler() -> None:
    """Prepares the registrations; each happens when the program first uses its part of the compiler."""
    after_import("torch._dynamo.device_interface", _register_with_dynamo)
    after_import("torch._dynamo.backends.registry", _register_own_compiler)
    after_import("torch.nn.attention.flex_attention", _register_flex_attention)
    LATE.update({name: partial(_inductor_class, name) for name in INDUCTOR_NAMES})


# LITERALINCLUDE END: compile-registration
