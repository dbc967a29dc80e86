"""What torch.autocast does on a backend that registers nothing for it, and after each missing part is added.

The backend is a stand-in that PyTorch offers to Python (`torch._C._acc`): its tensors have no memory and carry their
values as CPU tensors.
"""

from __future__ import annotations

import os
import types
import warnings
from collections.abc import Callable
from typing import Any

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch  # without the backend that the entry point would load
from torch.utils import backend_registration as registration
from torch.utils._pytree import tree_map_only


# LITERALINCLUDE START: amp-left-out
def on_device(host: torch.Tensor) -> Any:
    """A device tensor that carries a CPU tensor."""
    tensor = torch._C._acc.create_empty_tensor(tuple(host.shape), host.dtype)
    vars(tensor)["host"] = host
    return tensor


def computed(operator: torch._ops.OpOverload, *arguments: Any, **options: Any) -> Any:
    """The kernel of every operator: runs the same operator on the CPU."""
    arguments, options = tree_map_only(torch.Tensor, lambda tensor: tensor.host, (arguments, options))
    options = tree_map_only(torch.device, lambda _: torch.device("cpu"), options)
    return tree_map_only(torch.Tensor, on_device, operator(*arguments, **options))


def inside(call: Callable[[Any, Any], Any]) -> Any:
    """Makes a call inside autocast, with one tensor in half precision and one in float32."""
    half, single = on_device(torch.full((2, 2), 300.0, dtype=torch.float16)), on_device(torch.ones(2, 2))
    with torch.autocast("acme", dtype=torch.float16):
        return call(half, single).host


def casting(operator: torch._ops.OpOverload, dtype: torch.dtype) -> Callable[..., Any]:
    """What autocast does to an operator: it casts the tensors and calls the operator again with autocast excluded."""
    autocast = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def cast(*arguments: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(autocast):
            return operator(*tree_map_only(torch.Tensor, lambda tensor: on_device(tensor.host.to(dtype)), arguments))

    return cast


def cured() -> list[tuple[str, Callable[[], Any]]]:
    """The parts of a backend that autocast needs, each with a function that adds it."""
    everything, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    mm, power = torch.ops.aten.mm.default, torch.ops.aten.pow.Tensor_Scalar
    unsupported, module = types.ModuleType("torch.acme"), types.ModuleType("torch.acme")
    vars(unsupported)["get_amp_supported_dtype"] = lambda: []
    vars(module)["get_amp_supported_dtype"] = lambda: [torch.float16]
    return [
        ("a device module without functions", lambda: setattr(torch, "acme", types.ModuleType("torch.acme"))),
        ("get_amp_supported_dtype, an empty list", lambda: setattr(torch, "acme", unsupported)),
        ("get_amp_supported_dtype with float16", lambda: setattr(torch, "acme", module)),
        ("the fallthrough", lambda: everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")),
        ("mm in half precision", lambda: aten.impl("mm", casting(mm, torch.float16), "AutocastPrivateUse1")),
        ("pow in float32", lambda: aten.impl(power, casting(power, torch.float32), "AutocastPrivateUse1")),
    ]


# LITERALINCLUDE END: amp-left-out


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "relu(single)": lambda half, single: torch.relu(single),
    "mm(single, single)": lambda half, single: torch.mm(single, single),
    "mm(half, single)": torch.mm,
    "pow(half, 2)": lambda half, single: torch.pow(half, 2),
}


def outcome(call: Callable[[Any, Any], Any]) -> str:
    """How a call ends: the dtype and first number of its result and any warning, or the exception."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = inside(call)
        except (AssertionError, RuntimeError) as error:
            return f"{type(error).__name__}: {' '.join(str(error).split('. ')[0].split())}"
    warned = f"  (warned: {' '.join(str(caught[0].message).split())})" if caught else ""
    return f"{result.flatten()[0].item():g} in {str(result.dtype).removeprefix('torch.')}{warned}"


def main() -> None:
    """Adds one part after another, and prints the outcomes of the calls."""
    hooks, guard = torch._C._acc.PrivateUse1Hooks(), registration._DummyDeviceGuard()
    registration._setup_privateuseone_for_python_backend("acme", hook=hooks, device_guard=guard)
    library = torch.library.Library("_", "IMPL")
    library.fallback(computed, "PrivateUse1")
    for part, put_in in cured():
        put_in()
        print(f"with {part}")
        outcomes = {name: outcome(call) for name, call in CALLS.items()}
        if len(set(outcomes.values())) == 1:
            outcomes = {"every call": next(iter(outcomes.values()))}
        for name, ending in outcomes.items():
            print(f"    {name}: {ending}")


if __name__ == "__main__":
    main()
