"""What each registration of a backend makes possible, and what users see without it.

    python examples/registration.py                makes a call that needs it, with one registration left out
    python examples/registration.py --complete     the same calls, on the whole backend
    python examples/registration.py --name-first   registers one thing after another; which calls change?
    python examples/registration.py --name-last    the same things in the order of this backend

The guard, hooks and kernels are stand-ins that PyTorch offers to Python (`torch._C._acc`), so that any of them can be
missing without compiling anything. The output comes from PyTorch and does not depend on the language of a backend.
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

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # otherwise `import torch` would make all registrations

import torch
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend


@dataclass(frozen=True)
class Omission:
    """A call that needs the registration `left_out`, after the registrations `made`."""

    left_out: str
    made: tuple[str, ...]
    call: str


# LITERALINCLUDE START: registration-omissions
TENSOR = 'torch.empty(2, device="openreg")'
CHECKPOINT = "torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(2), use_reentrant=False)"
BACKWARD = f"({TENSOR}.requires_grad_() + 1).backward({TENSOR})"
RUNNING = ("name", "module", "kernels", "guard")
OMISSIONS = [
    Omission("name", (), TENSOR),
    Omission("device module", ("name",), TENSOR),
    Omission("device module", ("name",), CHECKPOINT),
    Omission("kernels", ("name", "module"), TENSOR),
    Omission("guard", ("name", "module", "kernels"), f"torch.sin({TENSOR})"),
    Omission("guard", ("name", "module", "kernels"), "torch.accelerator.current_device_index()"),
    Omission("guard", ("name", "module", "kernels"), f"{TENSOR}.requires_grad_() + 1"),
    Omission("fallback", RUNNING, f"torch.angle({TENSOR})"),
    Omission("hooks", RUNNING, BACKWARD),
    Omission("hooks", RUNNING, "torch.ones(2).pin_memory()"),
    Omission("generator", (*RUNNING, "hooks"), 'torch.Generator("openreg")'),
    Omission("generator", (*RUNNING, "hooks"), "torch.manual_seed(1)"),
    Omission("host allocator", (*RUNNING, "hooks"), "torch.ones(2).pin_memory()"),
    Omission("device allocator", (*RUNNING, "hooks"), "torch.accelerator.memory_stats()"),
    Omission("device allocator", (*RUNNING, "hooks"), 'torch.UntypedStorage(4, device="openreg")'),
    Omission("methods", (*RUNNING, "hooks"), "torch.ones(2).openreg()"),
    Omission("methods", (*RUNNING, "hooks"), "torch.ones(2).untyped_storage().openreg()"),
    Omission(
        "autograd",
        (*RUNNING, "hooks", "operator"),
        f"torch.ops.acme.twice({TENSOR}.requires_grad_()).backward({TENSOR})",
    ),
]
# LITERALINCLUDE END: registration-omissions

# LITERALINCLUDE START: registration-steps
NAME_FIRST = ("name", "module", "kernels", "guard", "hooks", "methods")
NAME_LAST = ("kernels", "guard", "hooks", "name", "module", "methods")
CALLS = [
    'torch.device("openreg")',
    CHECKPOINT,
    'torch.compile(torch.sin, backend="eager")(torch.ones(2))',
    "torch.accelerator.is_available()",
    TENSOR,
    "torch.accelerator.current_device_index()",
    f"{TENSOR} + 1",
    BACKWARD,
    "torch.ones(2).is_openreg",
]
# LITERALINCLUDE END: registration-steps


# LITERALINCLUDE START: registration-stand-ins
class Guard(torch._C._acc.DeviceGuard):
    """The device guard, here of one device."""

    def type_(self) -> Any:
        """The device type that the guard is for."""
        return torch._C._autograd.DeviceType.PrivateUse1


class Hooks(torch._C._acc.PrivateUse1Hooks):
    """Hooks that override what a backward needs, and nothing else."""

    def has_primary_context(self, index: int) -> bool:
        """Whether the device may hold work."""
        return True


# What is registered must outlive the registration.
GUARD, HOOKS = Guard(), Hooks()


def empty(size: list[int], **_: Any) -> torch.Tensor:
    """A tensor on the device, without memory behind it."""
    return torch._C._acc.create_empty_tensor(tuple(size), torch.float32)


def same_shape(self: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    """A tensor of the same shape, where a kernel would compute."""
    return empty(list(self.shape))


def module() -> types.ModuleType:
    """A device module that only says that there is a device."""
    module = types.ModuleType("torch.openreg")
    module.is_available = lambda: True
    module.device_count = lambda: 1
    return module


def register(what: str) -> None:
    """Makes one registration."""
    if what == "name":
        rename_privateuse1_backend("openreg")
    elif what == "module":
        torch._register_device_module("openreg", module())
    elif what == "kernels":
        torch.library.impl("aten::empty.memory_format", "PrivateUse1", empty)
        torch.library.impl("aten::empty_strided", "PrivateUse1", lambda size, stride, **_: empty(size))
        torch.library.impl("aten::add.Tensor", "PrivateUse1", same_shape)
        torch.library.impl("aten::_copy_from", "PrivateUse1", lambda source, target, *_: target)
    elif what == "guard":
        torch._C._acc.register_python_privateuseone_device_guard(GUARD)
    elif what == "hooks":
        torch._C._acc.register_python_privateuseone_hook(HOOKS)
    elif what == "methods":
        generate_methods_for_privateuse1_backend()
    elif what == "operator":
        torch.library.define("acme::twice", "(Tensor self) -> Tensor")
        torch.library.impl("acme::twice", "PrivateUse1", same_shape)


# LITERALINCLUDE END: registration-stand-ins


def outcome(call: str) -> str:
    """Makes a call and says how it ends."""
    try:
        eval(call)
    except Exception as error:
        # The first sentences of long messages; the rest lists all keys with a kernel, or says how to report the error.
        text = str(error).split(". This could be")[0].split(" This behavior is deprecated")[0].split("\n")[0]
        return f"{type(error).__name__}: {text}"
    return "no error"


def in_a_process_of_its_own(made: tuple[str, ...], call: str) -> str:
    """Registers and calls in a fork, because registrations last as long as the process and a call may end it."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # two of the calls crash: leave no core file
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # nor a list of addresses
        for what in made:
            register(what)
        os.write(writer, outcome(call).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return f"the process is killed by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else text


def print_omissions() -> None:
    """Prints every call and how it ends without one registration."""
    for omission in OMISSIONS:
        print(f"without {omission.left_out}: {omission.call}")
        print(f"   {in_a_process_of_its_own(omission.made, omission.call)}")


def print_complete() -> None:
    """Prints how the same calls end on the complete backend."""
    import torch_openreg  # noqa: F401 - imported for its registrations

    register("operator")
    torch.library.register_autograd("acme::twice", lambda context, gradient: gradient * 2)
    for omission in OMISSIONS:
        print(f"{omission.call}\n   {outcome(omission.call)}")


def print_steps(steps: tuple[str, ...]) -> None:
    """Prints, for each step, the calls that begin to work (+) and those that stop working (-)."""
    torch.compile(torch.sin, backend="eager")  # compiles nothing yet; its imports happen here, not in each fork
    before = {call: in_a_process_of_its_own((), call) for call in CALLS}
    for count, step in enumerate(steps, 1):
        print(step)
        after = {call: in_a_process_of_its_own(steps[:count], call) for call in CALLS}
        for call in CALLS:
            if after[call] != before[call] == "no error":
                print(f" - {call}\n      {after[call]}")
            elif before[call] != after[call] == "no error":
                print(f" + {call}")
        before = after


def main() -> None:
    """Does what the command line says."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "openreg runs")  # a fallback is not an error
    mode = sys.argv[1:]
    if mode == ["--complete"]:
        print_complete()
    elif mode:
        print_steps({"--name-first": NAME_FIRST, "--name-last": NAME_LAST}[mode[0]])
    else:
        print_omissions()


if __name__ == "__main__":
    main()
