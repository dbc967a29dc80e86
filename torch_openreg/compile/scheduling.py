"""From fused nodes to kernels: Inductor's C++ kernels, each with an entry point through which the device launches it.

Inductor makes one object per device and graph, on the thread that compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch._inductor import config
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.scheduler import Scheduler
from torch._inductor.utils import Placeholder, get_fused_kernel_name
from torch._inductor.virtualized import V

from torch_openreg.compile.kernel import expect_launcher

# LITERALINCLUDE START: compile-entry-point
# The launch passes numbers and addresses of eight bytes; only the generated source knows the kernel's own types.
_ENTRY = """
union CompiledArgument {{ void* pointer; int64_t integer; double real; }};
extern "C" void kernel(const CompiledArgument* arguments) {{
    generated({values});
}}
"""


def _converted(position: int, cpp_type: str) -> str:
    """The C++ expression for an argument of a type, such as `const float*`, `const int64_t` or `const float`."""
    argument = f"arguments[{position}]"
    if cpp_type.endswith("*"):
        return f"static_cast<{cpp_type}>({argument}.pointer)"
    number = cpp_type.removeprefix("const ")
    return f"{argument}.integer" if number == "int64_t" else f"static_cast<{number}>({argument}.real)"


def entry_point(cpp_types: Sequence[str]) -> str:
    """C++ source of the function that converts the arguments of a launch and calls the kernel `generated`."""
    return _ENTRY.format(values=", ".join(_converted(*numbered) for numbered in enumerate(cpp_types)))


# LITERALINCLUDE END: compile-entry-point


# LITERALINCLUDE START: compile-scheduling
class Scheduling(CppScheduling):
    """Decides what is fused, and writes one kernel for each group of nodes.

    Raises:
        NotImplementedError: if nothing in this build can launch generated C++.
    """

    def __init__(self, scheduler: Scheduler | None) -> None:
        expect_launcher()
        super().__init__(scheduler)  # type: ignore[no-untyped-call]

    def define_kernel(self, src_code: str, nodes: Any, kernel_args: Any = None) -> str:
        """Writes a kernel's source into the generated module, once, and returns its name there."""
        wrapper = V.graph.wrapper_code
        arguments = self.kernel_group.args if kernel_args is None else kernel_args
        # The entry point makes the source differ from that of a CPU kernel of the same graph, which is called directly.
        source = src_code + entry_point(arguments.cpp_argdefs()[2])
        if source in wrapper.src_to_kernel:
            return str(wrapper.src_to_kernel[source])
        style = config.cpp.descriptive_names
        fused = get_fused_kernel_name(nodes, style) if style else ""
        name = "_".join(["openreg", fused, wrapper.next_kernel_suffix()])
        wrapper.src_to_kernel[source] = name
        wrapper.define_kernel(name, _definition(name, source), gpu=False)
        return name


def _definition(name: str, source: str) -> str:
    """The expression that compiles a kernel when the generated module is loaded."""
    source = source.replace(str(Placeholder.KERNEL_NAME), "generated")
    source = source.replace(str(Placeholder.DESCRIPTIVE_NAME), name)
    source = source.replace("#pragma CMT", "//")  # Inductor's mark of a comment inside an expression
    return f"generated_kernel({name!r}, async_compile.cpp(r'''{source}'''))"


# LITERALINCLUDE END: compile-scheduling
