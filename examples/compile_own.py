"""Compiles a function by the backend's own compiler, and prints the graph, what becomes of it, and its first kernel."""

from __future__ import annotations

import os

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor, fx

from examples.compile_first import kernels
from torch_openreg.compile import own_compiler
from torch_openreg.compile.own_compiler import compile_part, loop_source


# LITERALINCLUDE START: compile-own-example
def gated_product(x: Tensor, gate: Tensor, weight: Tensor) -> Tensor:
    """Operators on elements, before and after a matrix product."""
    return torch.tanh((x * torch.sigmoid(gate)) @ weight) + 1


def compile_aloud(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """The compiler, with a look at what it gets and at what it makes of it."""
    for node in graph.graph.nodes:
        if node.op == "call_function":
            print(node.format_node())
    compiled = compile_part(graph, inputs)
    print("becomes", *(node.target for node in graph.graph.nodes if node.op.startswith("call_")))
    return compiled


# LITERALINCLUDE END: compile-own-example


def main() -> None:
    """Compiles, compares, and prints."""
    arguments = [torch.rand(4, 4) for _ in range(3)]
    on_device = [each.to("openreg:1") for each in arguments]
    compiled = torch.compile(gated_product, backend="openreg", fullgraph=True)
    with (
        mock.patch.object(own_compiler, "compile_part", compile_aloud),
        mock.patch.object(own_compiler, "loop_source", wraps=loop_source) as written,
    ):
        result = compiled(*on_device)
    torch.testing.assert_close(result.cpu(), gated_product(*arguments))
    print("eager:   ", *kernels(gated_product, *on_device))
    print("compiled:", *kernels(compiled, *on_device))
    print(loop_source(written.call_args_list[0].args[0]))


if __name__ == "__main__":
    main()
