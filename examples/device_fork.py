"""What a forked child can do if its parent has used the devices, and if the parent has used only the CPU.

python examples/device_fork.py
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import torch

warnings.simplefilter("ignore", DeprecationWarning)  # from os.fork since Python 3.12: the driver has threads


def tell(call: str) -> None:
    """Makes a call and prints its result or error."""
    try:
        print(f"{call}\n    {eval(call)}", flush=True)
    except RuntimeError as error:
        print(f"{call}\n    {error}", flush=True)


def in_a_child(run: Callable[[], None]) -> None:
    """Runs a function in a forked child."""
    if (child := os.fork()) == 0:
        run()
        os._exit(0)
    os.waitpid(child, 0)


def of_a_user() -> None:
    """Makes calls in a child whose parent has used the devices."""
    print("the parent has used openreg:1")
    tell("torch.openreg._is_in_bad_fork()")
    tell("torch.openreg.is_initialized()")
    tell("torch.openreg.device_count()")
    tell("torch.openreg.is_available()")
    tell("len(torch.accelerator.memory_stats(0))")
    tell("torch._C._accelerator_hooks_get_current_device()")
    tell("torch._C._accelerator_hooks_set_current_device(1)")
    tell("torch._C._accelerator_hooks_set_current_device(0)")


def of_nobody() -> None:
    """Makes a call in a child whose parent has computed a gradient on the CPU."""
    print("the parent has called backward() on the CPU")
    tell('torch.ones(1, device="openreg")')


def main() -> None:
    """Forks three times."""
    in_a_child(lambda: tell('torch.ones(1, device="openreg")'))
    torch.ones(1, requires_grad=True).sum().backward()
    in_a_child(of_nobody)
    torch.openreg.set_device(1)
    tell("len(torch.accelerator.memory_stats(0)) > 0")
    in_a_child(of_a_user)
    tell("torch.openreg.device_count()")


if __name__ == "__main__":
    main()
