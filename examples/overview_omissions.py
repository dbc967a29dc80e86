"""What each registration of a backend is for: leaves one out, makes a call that needs it, prints what the user sees.

    python examples/overview_omissions.py              each call, with one registration missing
    python examples/overview_omissions.py --complete   the same calls, on the whole backend

Guard, hooks and kernels are the stand-ins that PyTorch offers to Python (`torch._C._acc`), so that any of them can be
missing without compiling anything. What is printed comes from PyTorch and does not depend on the language of a backend.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import types
import warnings
from dataclasses import dataclass
from typing import Any

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # else `import torch` would make all of the registrations

import torch
from torch.utils.backend_registration import rename_privateuse1_backend


@dataclass(frozen=True)
class Omission:
    """A call that needs the registration `left_out`, after the registrations `made`."""

    left_out: str
    made: tuple[str, ...]
    call: str


# LITERALINCLUDE START: overview-omissions
TENSOR = 'torch.empty(2, device="openreg")'
RUNNING = ("name", "module", "kernels", "guard")
OMISSIONS = [
    Omission("name", (), TENSOR),
    Omission("device module", ("name",), TENSOR),
    Omission(
        "device module", ("name",), "torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(2), use_reentrant=False)"
    ),
    Omission("kernels", ("name", "module"), TENSOR),
    Omission("guard", ("name", "module", "kernels"), f"torch.sin({TENSOR})"),
    Omission("guard", ("name", "module", "kernels"), "torch.accelerator.current_device_index()"),
    Omission("fallback", RUNNING, f"torch.sin({TENSOR})"),
    Omission("hooks", RUNNING, f"({TENSOR}.requires_grad_() + 1).backward({TENSOR})"),
    Omission("hooks", RUNNING, "torch.ones(2).pin_memory()"),
    Omission("generator", (*RUNNING, "hooks"), 'torch.Generator("openreg")'),
    Omission("generator", (*RUNNING, "hooks"), "torch.manual_seed(1)"),
    Omission("host allocator", (*RUNNING, "hooks"), "torch.ones(2).pin_memory()"),
    Omission("device allocator", (*RUNNING, "hooks"), "torch.accelerator.memory_stats()"),
    Omission("device allocator", (*RUNNING, "hooks"), 'torch.UntypedStorage(4, device="openreg")'),
    Omission("methods", (*RUNNING, "hooks"), "torch.ones(2).openreg()"),
    Omission("methods", (*RUNNING, "hooks"), "torch.ones(2).untyped_storage().openreg()"),
]
# LITERALINCLUDE END: overview-omissions


# LITERALINCLUDE START: overview-registrations
class Guard(torch._C._acc.DeviceGuard):
    """The device guard: here, of one device."""

    def type_(self) -> Any:
        """The device type that the guard is for."""
        return torch._C._autograd.DeviceType.PrivateUse1


# What is registered must outlive the registration. Hooks that override nothing raise, but they are there.
GUARD, HOOKS = Guard(), torch._C._acc.PrivateUse1Hooks()


def empty(size: list[int], **_: Any) -> torch.Tensor:
    """A tensor on the device, without memory behind it."""
    return torch._C._acc.create_empty_tensor(tuple(size), torch.float32)


def add(self: torch.Tensor, other: torch.Tensor, **_: Any) -> torch.Tensor:
    """Where a kernel would add."""
    return empty(list(self.shape))


def register(what: str) -> None:
    """Makes one registration."""
    if what == "name":
        rename_privateuse1_backend("openreg")
    elif what == "module":
        torch._register_device_module("openreg", types.ModuleType("torch.openreg"))
    elif what == "kernels":
        torch.library.impl("aten::empty.memory_format", "PrivateUse1", empty)
        torch.library.impl("aten::add.Tensor", "PrivateUse1", add)
    elif what == "guard":
        torch._C._acc.register_python_privateuseone_device_guard(GUARD)
    elif what == "hooks":
        torch._C._acc.register_python_privateuseone_hook(HOOKS)


# LITERALINCLUDE END: overview-registrations


def outcome(call: str) -> str:
    """Makes a call and says how it ends."""
    try:
        eval(call)
    except Exception as error:
        # Of "Could not run", the first sentence; the rest lists all keys that have a kernel.
        return f"{type(error).__name__}: {str(error).split('. This could be')[0]}"
    return "no error"


def in_a_process_of_its_own(omission: Omission) -> None:
    """Registers and calls in a fork, because registrations last as long as the process and a call may end it."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one of the calls crashes, and leaves no core file
        for what in omission.made:
            register(what)
        print(f"   {outcome(omission.call)}", flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        print(f"   the process is killed by {signal.Signals(os.WTERMSIG(status)).name}")


def main() -> None:
    """Prints every call and how it ends."""
    warnings.simplefilter("error")
    complete = sys.argv[1:] == ["--complete"]
    if complete:
        import torch_openreg  # noqa: F401 - imported for its registrations
    for omission in OMISSIONS:
        print(f"{omission.call}" if complete else f"without {omission.left_out}: {omission.call}", flush=True)
        if complete:
            print(f"   {outcome(omission.call)}")
        else:
            in_a_process_of_its_own(omission)


if __name__ == "__main__":
    main()
