"""A compiler of the backend's own, `torch.compile(backend="openreg")`: parts of a graph become one kernel each.

It compiles what it knows, and leaves every other operator as it is. Dynamo calls it for each graph; nothing of it is
imported before a program names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
from torch import Tensor, fx, nn
from torch._decomp import get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.codecache import CppCodeCache
from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_eq
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from torch_openreg.compile.entry_point import library
from torch_openreg.compile.kernel import GeneratedKernel, expect_launcher

aten = torch.ops.aten

# LITERALINCLUDE START: own-compiler-table
# The operators that this compiler knows, as C++ expressions of one element of each argument.
EXPRESSIONS: dict[Any, str] = {
    aten.abs.default: "std::fabs({0})",
    aten.add.Tensor: "({0} + {1})",
    aten.cos.default: "std::cos({0})",
    aten.div.Tensor: "({0} / {1})",
    aten.exp.default: "std::exp({0})",
    aten.mul.Tensor: "({0} * {1})",
    aten.neg.default: "(-{0})",
    aten.relu.default: "({0} < 0 ? 0 : {0})",  # NaN and -0.0 stay what they are
    aten.sigmoid.default: "(1 / (1 + std::exp(-{0})))",
    aten.sin.default: "std::sin({0})",
    aten.sqrt.default: "std::sqrt({0})",
    aten.sub.Tensor: "({0} - {1})",
    aten.tanh.default: "std::tanh({0})",
}

# PyTorch replaces these by operators of the table before the compiler sees the graph.
DECOMPOSED = (aten.rsub, aten.silu, aten.silu_backward, aten.sigmoid_backward, aten.tanh_backward)
# LITERALINCLUDE END: own-compiler-table


# LITERALINCLUDE START: own-compiler-support
class Supported(OperatorSupportBase):
    """Which nodes become part of a kernel: those of the table, in float32, without broadcasting or strides."""

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        """Asked for each node by the partitioner. Anything unknown is not supported, and runs as it did."""
        if node.target not in EXPRESSIONS or node.kwargs:
            return False
        result = node.meta["val"]
        return _is_plain(result) and all(_fits(argument, result) for argument in node.args)


def _is_plain(value: Tensor) -> bool:
    return value.device.type == "openreg" and value.dtype is torch.float32 and value.is_contiguous()


def _fits(argument: Any, result: Tensor) -> bool:
    if not isinstance(argument, fx.Node):
        return isinstance(argument, int | float) and math.isfinite(argument)
    value = argument.meta["val"]
    return (
        isinstance(value, Tensor)
        and _is_plain(value)
        and value.device == result.device
        and statically_known_true(sym_eq(value.shape, result.shape))
    )


# LITERALINCLUDE END: own-compiler-support


# LITERALINCLUDE START: own-compiler-source
def _results(part: fx.GraphModule) -> list[fx.Node]:
    """The nodes whose values the rest of the graph reads."""
    returned: Any = part.graph.output_node().args[0]
    return [returned] if isinstance(returned, fx.Node) else list(returned)


def loop_source(part: fx.GraphModule) -> str:
    """C++ of one loop for a graph of supported nodes, with an entry point for the launch."""
    inputs, results = part.graph.find_nodes(op="placeholder"), _results(part)
    element = {node: f"in{number}[i]" for number, node in enumerate(inputs)}
    lines = []
    for node in part.graph.nodes:
        if node.op == "call_function":
            values = [element[each] if isinstance(each, fx.Node) else f"{float(each)}f" for each in node.args]
            lines.append(f"const float {node.name} = {EXPRESSIONS[node.target].format(*values)};")
            element[node] = node.name
    lines += [f"out{number}[i] = {element[node]};" for number, node in enumerate(results)]
    parameters = [f"const float* in{number}" for number in range(len(inputs))]
    parameters += [f"float* out{number}" for number in range(len(results))]
    loop = [
        "#include <cmath>",
        "#include <cstdint>",
        f"static void generated({', '.join(parameters)}, int64_t count) {{",
        "  for (int64_t i = 0; i < count; ++i) {",
        *(f"    {line}" for line in lines),
        "  }",
        "}\n",
    ]
    return library("\n".join(loop), [*(each.rpartition(" ")[0] for each in parameters), "int64_t"])


# LITERALINCLUDE END: own-compiler-source


# LITERALINCLUDE START: own-compiler-loop
class Loop(nn.Module):
    """What stands in the graph for a part of it: one kernel.

    Args:
        part: a graph whose nodes are all supported.
    """

    def __init__(self, part: fx.GraphModule) -> None:
        super().__init__()
        nodes = part.graph.nodes
        names = [node.target.overloadpacket.__name__ for node in nodes if node.op == "call_function"]
        name = "_".join(["openreg_loop", *names])  # in profiles and errors
        self._kernel = GeneratedKernel(name, CppCodeCache.load(loop_source(part)).kernel)
        self._count = len(_results(part))

    def forward(self, *inputs: Tensor) -> Tensor | list[Tensor]:
        """Allocates the results, and queues the kernel on the current stream."""
        results = [torch.empty_like(inputs[0]) for _ in range(self._count)]
        self._kernel(inputs[0].get_device(), *inputs, *results, inputs[0].numel())
        return results[0] if self._count == 1 else results


# LITERALINCLUDE END: own-compiler-loop


# LITERALINCLUDE START: own-compiler-graph
def compile_part(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Replaces the supported parts of a forward or backward graph by kernels. `inputs` are fake tensors."""
    partitioner = CapabilityBasedPartitioner(graph, Supported(), skip_horizontal_fusion=True)
    fused = partitioner.partition_and_fuse()
    for node in fused.graph.nodes:
        if node.op == "call_module":  # the partitioner's; branches of torch.cond and the like are attributes
            part = fused.get_submodule(node.target)
            assert isinstance(part, fx.GraphModule)
            setattr(fused, node.target, Loop(part))
    return make_boxed_func(fused.forward)  # type: ignore[no-any-return]


def compile_graph(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """The function behind `torch.compile(backend="openreg")`: compiles a graph of Dynamo's, and its backward pass.

    Raises:
        NotImplementedError: if nothing in this build can launch generated C++.
    """
    expect_launcher()
    compile_both = aot_autograd(fw_compiler=compile_part, decompositions=get_decompositions(DECOMPOSED))
    return compile_both(graph, inputs)


# LITERALINCLUDE END: own-compiler-graph
