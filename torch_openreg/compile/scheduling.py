"""From fused nodes to kernels: Inductor's C++ kernels, each with an entry point through which the device launches it.

Inductor makes one object per device and graph, on the thread that compiles.
"""

from __future__ import annotations

from typing import Any

from torch._inductor import config
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.scheduler import Scheduler
from torch._inductor.utils import Placeholder, get_fused_kernel_name, parallel_num_threads
from torch._inductor.virtualized import V

from torch_openreg.compile.kernel import expect_launcher
from torch_openreg.compile.wrapper import DeviceWrapper


# LITERALINCLUDE START: compile-scheduling
class Scheduling(CppScheduling):
    """Decides what is fused, and writes one kernel for each group of nodes.

    Raises:
        NotImplementedError: if nothing in this build can launch generated C++.
    """

    def __init__(self, scheduler: Scheduler | None) -> None:
        expect_launcher()
        super().__init__(scheduler)  # type: ignore[no-untyped-call]

    def codegen_node(self, node: Any) -> None:
        """Generates the loops of fused nodes, which name their number of threads: their arrays have as many places.

        Inductor leaves the number out if it is that of the processors, since `torch.set_num_threads` has set it for the
        thread that calls. A kernel of the device runs on a thread of the driver, for which nobody has.
        """
        with config.patch({} if config.cpp.dynamic_threads else {"cpp.threads": parallel_num_threads()}):
            super().codegen_node(node)

    def define_kernel(self, src_code: str, nodes: Any, kernel_args: Any = None) -> str:
        """Writes a kernel's source into the generated module, once, and returns its name there."""
        wrapper = V.graph.wrapper_code
        assert isinstance(wrapper, DeviceWrapper)
        arguments = self.kernel_group.args if kernel_args is None else kernel_args
        # Not that of a CPU kernel of the same graph and source, which is called directly.
        key = f"openreg: {src_code}"
        if key in wrapper.src_to_kernel:
            return str(wrapper.src_to_kernel[key])
        style = config.cpp.descriptive_names
        fused = get_fused_kernel_name(nodes, style) if style else ""
        name = "_".join(["openreg", fused, wrapper.next_kernel_suffix()])
        wrapper.src_to_kernel[key] = name
        source = src_code.replace(str(Placeholder.DESCRIPTIVE_NAME), name)
        source = source.replace("#pragma CMT", "//")  # Inductor's mark of a comment inside an expression
        wrapper.define_generated(name, source, arguments.cpp_argdefs()[2])
        return name


# LITERALINCLUDE END: compile-scheduling
