"""Leaves out one registration after another, and prints what torch.compile says then."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable

import torch
from torch._functorch import config as autograd_config
from torch._inductor import config

# Otherwise an earlier run's code would be found, and Inductor would start threads, which a fork does not survive.
autograd_config.enable_autograd_cache = config.fx_graph_cache = False
config.compile_threads = 1

# ruff: noqa: E402 - the configuration comes before what reads it
import torch._inductor.compile_fx
from torch import Tensor
from torch._dynamo.device_interface import device_interfaces
from torch._inductor.codegen.common import device_op_overrides_dict, init_backend_registration

from torch_openreg.compile import patches
from torch_openreg.openreg._absent import LATE


# LITERALINCLUDE START: compile-without-cases
def twice(x: Tensor) -> Tensor:
    """One loop."""
    return x * 2


def shifted(x: Tensor) -> Tensor:
    """A reduction, and a loop over what it was computed from."""
    return x.mean() * 2 + x


def noise(x: Tensor) -> Tensor:
    """Random numbers."""
    return x + torch.rand_like(x)


def without_patch(name: str) -> None:
    """Takes one patch out of the list."""
    for release, listed in patches.PATCHES.items():
        patches.PATCHES[release] = tuple(patch for patch in listed if patch.__name__ != name)


def without_overrides() -> None:
    """Registers all but the lines of generated Python."""
    init_backend_registration()
    device_op_overrides_dict.pop("openreg")


# What is left out, how, the function that notices, and the device on which it does.
CASES: tuple[tuple[str, Callable[[], object], Callable[[Tensor], Tensor], str], ...] = (
    ("the four classes", LATE.clear, twice, "openreg:0"),
    ("one of the four", lambda: LATE.pop("WrapperFxCodegen"), twice, "openreg:0"),
    ("DeviceInterface", lambda: device_interfaces.pop("openreg"), shifted, "openreg:0"),
    ("DeviceOpOverrides", without_overrides, twice, "openreg:0"),
    ("_name_the_backend", lambda: without_patch("_name_the_backend"), noise, "openreg:0"),
    ("_enter_the_device", lambda: without_patch("_enter_the_device"), twice, "openreg:1"),
    ("_fuse_as_for_the_cpu", lambda: without_patch("_fuse_as_for_the_cpu"), shifted, "openreg:0"),
)
# LITERALINCLUDE END: compile-without-cases


def attempt(leave_out: Callable[[], object], function: Callable[[Tensor], Tensor], device: str) -> str:
    """The first line of the error."""
    function(torch.ones(2, 3, device=device))  # works without a compiler
    leave_out()
    logging.disable()  # Inductor logs the node that it was at
    try:
        return f"no error, and a result on {torch.compile(function)(torch.ones(2, 3, device=device)).device}"
    except Exception as error:
        cause = getattr(error, "inner_exception", error)
        return f"{type(cause).__name__}: {str(cause).partition(chr(10))[0]}".rstrip()


def main() -> None:
    """Tries each in a process of its own, forked before the device is used."""
    for name, leave_out, function, device in CASES:
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            try:
                print(f"without {name}: {attempt(leave_out, function, device)}", flush=True)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
