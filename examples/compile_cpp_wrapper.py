"""What Inductor generates with cpp_wrapper: C++ that allocates, calls an operator, and launches a kernel."""

from __future__ import annotations

import textwrap

import torch
from torch import Tensor
from torch._inductor.utils import run_and_get_code


# LITERALINCLUDE START: cpp-wrapper-example
def layer(x: Tensor, weight: Tensor) -> Tensor:
    """A matrix product stays an operator; what is behind it becomes a loop."""
    return torch.relu(x @ weight) * 2


x, weight = torch.randn(8, 16, device="openreg:1"), torch.randn(16, 4, device="openreg:1")
compiled = torch.compile(layer, fullgraph=True, dynamic=False, options={"cpp_wrapper": True, "cpp.threads": 1})
result, (code,) = run_and_get_code(compiled, x, weight)
# LITERALINCLUDE END: cpp-wrapper-example

torch.testing.assert_close(result.cpu(), layer(x.cpu(), weight.cpu()))
operator = code[code.index("AOTITorchError aoti_torch_openreg_mm_out") : code.index("CACHE_TORCH_DTYPE")]
print(operator.removesuffix("}\n"))
call = code[code.index("    GeneratedGuard device_guard") : code.index("} // inductor_entry_impl")]
print(textwrap.dedent(call).strip())
