"""What torch.nn functions do on a backend with a CPU fallback, but without the operators that they need from a backend.

The backend is a stand-in that PyTorch offers to Python (`torch._C._acc`): its tensors have no memory and carry their
values as CPU tensors.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch  # without the backend that the entry point would load
from torch.nn.functional import conv1d
from torch.utils import backend_registration as registration
from torch.utils._pytree import tree_map_only

called: list[str] = []


# LITERALINCLUDE START: nn-contracts-left-out
def on_device(host: torch.Tensor) -> Any:
    """A device tensor that carries a CPU tensor."""
    tensor = torch._C._acc.create_empty_tensor(tuple(host.shape), host.dtype)
    vars(tensor)["host"] = host
    return tensor


def fallback(operator: torch._ops.OpOverload, *arguments: Any, **options: Any) -> Any:
    """What at::native::cpu_fallback does: copies arguments to the CPU, runs the operator, and copies results back."""
    called.append(operator.name())
    arguments, options = tree_map_only(torch.Tensor, lambda tensor: tensor.host, (arguments, options))
    arguments, options = tree_map_only(torch.device, lambda _: torch.device("cpu"), (arguments, options))
    return tree_map_only(torch.Tensor, on_device, operator(*arguments, **options))


def signal(*sizes: int) -> Any:
    """Numbers on the device."""
    return on_device(torch.ones(sizes))


CALLS: dict[str, Callable[[], Any]] = {
    "conv1d": lambda: conv1d(signal(1, 1, 4), signal(1, 1, 2)),
    "lstm_cell": lambda: torch.lstm_cell(signal(1, 2), (signal(1, 3), signal(1, 3)), signal(12, 2), signal(12, 3)),
    "gru_cell": lambda: torch.gru_cell(signal(1, 2), signal(1, 3), signal(9, 2), signal(9, 3)),
    "_fused_sdp_choice": lambda: torch._fused_sdp_choice(signal(1, 1, 2, 4), signal(1, 1, 2, 4), signal(1, 1, 2, 4)),
}
# LITERALINCLUDE END: nn-contracts-left-out


def main() -> None:
    """Makes each call, and prints its outcome and the last operator that fell back."""
    hooks, guard = torch._C._acc.PrivateUse1Hooks(), registration._DummyDeviceGuard()
    registration._setup_privateuseone_for_python_backend("openreg", hook=hooks, device_guard=guard)
    library = torch.library.Library("_", "IMPL")
    library.fallback(fallback, "PrivateUse1")
    for name, call in CALLS.items():
        called.clear()
        try:
            outcome = str(call())
        except NotImplementedError as error:
            outcome = f"NotImplementedError: {str(error).split('. ')[0]}"
        print(f"{name}: {outcome}")
        print(f"    the last to fall back: {called[-1]}")


if __name__ == "__main__":
    main()
