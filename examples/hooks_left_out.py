"""What a program sees when a backend has registered no hooks, or hooks that override next to nothing.

    python examples/hooks_left_out.py --unregistered   no hooks
    python examples/hooks_left_out.py                  three hooks of fifteen, and PyTorch's own body for the others

The device module, guard and hooks are stand-ins that PyTorch offers to Python (`torch._C._acc`), so that a hook can be
missing without compiling anything. Python can override only these three hooks; each prints that it was called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch  # without the backend that the entry point would load
from torch.utils import backend_registration as registration


# LITERALINCLUDE START: hooks-left-out-overrides
def telling(hook: str) -> Callable[..., bool]:
    """A hook that prints when it is called."""

    def call(hooks: Hooks, *arguments: int) -> bool:
        print(f"    {hook}({', '.join(map(str, arguments))}) is called")
        return True

    return call


class Hooks(torch._C._acc.PrivateUse1Hooks):
    """The hooks that Python can override."""

    is_built = telling("isBuilt")
    is_available = telling("isAvailable")
    has_primary_context = telling("hasPrimaryContext")


# LITERALINCLUDE END: hooks-left-out-overrides


class ToDevice(torch.autograd.Function):
    """A differentiable function whose result is on the device, so that a backward can start there."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Return a device tensor of the shape of `x`, without memory behind it."""
        return torch._C._acc.create_empty_tensor(tuple(x.shape), x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Return a gradient on the CPU."""
        return torch.ones(gradient.shape)


# LITERALINCLUDE START: hooks-left-out-calls
CALLS = [
    "torch.accelerator.is_available()",
    "torch.accelerator.current_accelerator(check_available=True)",
    "host.sum().backward()",
    "torch.ones(2).is_pinned()",
    "device.backward(device.detach())",
    'torch.Generator("openreg")',
    "torch.ones(2).pin_memory()",
    "device.untyped_storage().resize_(64)",
    "torch._C._accelerator_hooks_device_count()",
    "torch._C._accelerator_hooks_get_current_device()",
    "torch._C._accelerator_hooks_set_current_device(0)",
    "torch._C._accelerator_hooks_exchange_device(0)",
    "torch._C._accelerator_hooks_maybe_exchange_device(0)",
]
# LITERALINCLUDE END: hooks-left-out-calls


def main() -> None:
    """Registers the stand-ins, makes each call, and prints its outcome."""
    guard, hooks = registration._DummyDeviceGuard(), Hooks()
    if "--unregistered" in sys.argv:
        registration.rename_privateuse1_backend("openreg")
        torch._register_device_module("openreg", registration._DummyBackendModule())
        torch._C._acc.register_python_privateuseone_device_guard(guard)
    else:
        registration._setup_privateuseone_for_python_backend("openreg", hook=hooks, device_guard=guard)
    host = torch.ones(2, requires_grad=True)
    names = {"torch": torch, "host": host, "device": ToDevice.apply(host)}
    for call in CALLS:
        print(call)
        try:
            print(f"    returns {eval(call, names)}")
        except RuntimeError as error:
            print(f"    {type(error).__name__}: {error}")
    # One of the calls is a backward on the device. The backend, which would wait for the engine's threads at exit, is
    # not loaded, so this skips the interpreter's shutdown, which would race with them (see torch_openreg/_exit.py).
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
