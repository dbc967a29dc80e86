"""Compiles a function for the device, counts its kernels, and prints the generated code."""

from __future__ import annotations

import os
import re

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

from collections.abc import Callable

import torch
from torch import Tensor
from torch._functorch import config as autograd_config
from torch._inductor import config
from torch._inductor.utils import run_and_get_code
from torch.autograd import DeviceType
from torch.profiler import profile


# LITERALINCLUDE START: compile-first
def gated(x: Tensor, gate: Tensor) -> Tensor:
    """Three operators for eager PyTorch, one loop for a compiler."""
    return x * torch.sigmoid(gate) + 1


def kernels(function: Callable[..., Tensor], *arguments: Tensor) -> list[str]:
    """The names of the kernels that a call launches."""
    with profile() as recorded:
        function(*arguments)
    return [event.name for event in recorded.events() if event.device_type == DeviceType.PrivateUse1]


# LITERALINCLUDE END: compile-first


# Without a cache, where an earlier run's code would be found; and scalar code on one thread, which is shorter than what
# Inductor generates otherwise, and the same on every CPU.
@autograd_config.patch({"enable_autograd_cache": False})  # type: ignore[untyped-decorator]
@config.patch({"fx_graph_cache": False, "compile_threads": 1, "cpp.simdlen": 1, "cpp.threads": 1})  # type: ignore[untyped-decorator]
def main() -> None:
    """Compares results, and prints kernels and the generated code."""
    x, gate = torch.rand(8), torch.rand(8)
    arguments = x.to("openreg:1"), gate.to("openreg:1")
    compiled = torch.compile(gated, fullgraph=True, dynamic=True)
    result, (module,) = run_and_get_code(compiled, *arguments)
    torch.testing.assert_close(result.cpu(), gated(x, gate))
    print("eager:   ", *kernels(gated, *arguments))
    print("compiled:", *kernels(compiled, *arguments))
    module = re.sub(r"\n *#pragma[^\n]*", "", module)  # depends on the compiler
    print(*re.findall(r"^openreg_fused.*?^'''\)\)", module, re.DOTALL | re.MULTILINE))
    print("...")
    print(*re.findall(r"^    def call\(.*?return [^\n]*", module, re.DOTALL | re.MULTILINE))


if __name__ == "__main__":
    main()
