"""How an operator of PyTorch gets to a device: the questions of the decision tree, answered by PyTorch itself.

    python examples/operators_route.py aten::add.Tensor aten::angle

The names are those of `torch.openreg.fallback_stats()`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torchgen
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import DispatchKey, NativeFunction, NativeFunctionsGroup

NATIVE = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
# Operators that PyTorch calls only for backends, and the chapter on each.
CHAPTERS = {
    **dict.fromkeys(("_copy_from", "_copy_from_and_resize", "_local_scalar_dense"), "copies"),
    **dict.fromkeys(("convolution_overrideable", "convolution_backward_overrideable"), "nn_contracts"),
    **dict.fromkeys(("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell"), "nn_contracts"),
    "_fused_sdp_choice": "attention",
}
has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
parsed = parse_native_yaml(str(NATIVE / "native_functions.yaml"), str(NATIVE / "tags.yaml"))
functions = {str(function.func.name): function for function in parsed.native_functions}
groups: dict[str, NativeFunctionsGroup] = {}
for group in get_grouped_native_functions(parsed.native_functions):
    if isinstance(group, NativeFunctionsGroup) and group.structured:
        groups |= {str(function.func.name): group for function in group.functions()}


def kernel(function: NativeFunction | NativeFunctionsGroup, key: DispatchKey) -> str:
    """The name of the function or class that PyTorch registered for a key, or an empty string."""
    metadata = parsed.backend_indices[key].get_kernel(function)
    return metadata.kernel.removesuffix("_CPU").removesuffix("_CUDA") if metadata else ""


def is_shared(function: NativeFunction | NativeFunctionsGroup) -> bool:
    """Whether PyTorch has one function for both CPU and CUDA, which is then independent of the device."""
    return "" != kernel(function, DispatchKey.CPU) == kernel(function, DispatchKey.CUDA)


# LITERALINCLUDE START: operators-route
def route(name: str) -> str:
    """The first answer that fits, in the order of the questions."""
    if not name.startswith("aten::"):
        return "a kernel of your own: custom_operators"
    function = functions[name.removeprefix("aten::")]
    group = groups.get(str(function.func.name))
    if function.root_name in CHAPTERS:
        return f"a kernel of your own: {CHAPTERS[function.root_name]}"
    if has_kernel(name, "CompositeImplicitAutograd"):
        return "nothing: composite"
    if group is not None:
        return f"structured, {'and the rest ends in a stub' if is_shared(group) else 'with a kernel of your own'}"
    if has_kernel(name, "CompositeExplicitAutograd"):
        return "nothing: composite, and PyTorch knows the derivative"
    if "nondeterministic_seeded" in function.tags:
        return "a kernel of your own: random"
    if is_shared(function):
        return "PyTorch's function as it is, or with a stub filled"
    if not has_kernel(name, "CPU"):
        return "a kernel of your own: the CPU has none to fall back to"
    return "a kernel of your own, or the fallback"


# LITERALINCLUDE END: operators-route


def main() -> None:
    """Prints a line for each operator that is named."""
    for name in sys.argv[1:]:
        print(f"{name:38}{route(name)}")


if __name__ == "__main__":
    main()
