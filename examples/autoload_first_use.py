"""Which calls start the driver, and which put the devices into use? Each runs in a process of its own.

A fork shows whether the driver runs: a child cannot use a driver that its parent has started.
"""

from __future__ import annotations

import os
import warnings

import torch

warnings.simplefilter("ignore", DeprecationWarning)  # from os.fork since Python 3.12: the driver has threads

# LITERALINCLUDE START: autoload-first-use
CALLS = [
    "import torch",
    'torch.device("openreg:1")',
    "torch.manual_seed(1)",
    "torch.ones(2).is_pinned()",
    "torch.openreg._is_in_bad_fork()",
    "torch.accelerator.current_accelerator()",
    'torch.get_device_module("openreg")',
    "torch.accelerator.device_count()",
    "torch.accelerator.is_available()",
    "torch.ones(2, requires_grad=True).sum().backward()",
    'torch.compile(torch.sin, backend="eager")(torch.ones(2))',
    "torch.accelerator.current_device_index()",
    "torch.accelerator.memory_allocated()",
    "torch.ones(2).pin_memory()",
    'torch.Generator("openreg")',
    "torch.openreg.set_device(0)",
    "torch.openreg.get_rng_state()",
    "torch.accelerator.synchronize()",
    'torch.empty(2, device="openreg")',
    'torch.ones(2).to("openreg")',
]


def state_after(call: str) -> str:
    """What is running after a call."""
    exec(call, {"torch": torch})
    if torch.openreg.is_initialized():
        return "devices in use"
    if (child := os.fork()) == 0:
        os._exit(int(torch.openreg._is_in_bad_fork()))
    return "driver" if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1 else "nothing"


# LITERALINCLUDE END: autoload-first-use


def main() -> None:
    """Makes each call."""
    for call in CALLS:
        if (child := os.fork()) == 0:
            print(f"{call:<58}{state_after(call)}", flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
