"""Starts the devices: with a driver that cannot start, again when it can, and in children forked after each."""

from __future__ import annotations

import os
import warnings

import torch  # noqa: F401 - for the calls below

warnings.simplefilter("ignore", DeprecationWarning)  # from os.fork since Python 3.12: the driver has threads


def tell(call: str) -> None:
    """Makes a call and prints its result or error."""
    try:
        print(f"{call}\n    returns {eval(call)}", flush=True)
    except RuntimeError as error:
        print(f"{call}\n    {error}", flush=True)


def tell_in_child(call: str) -> None:
    """The same in a forked child."""
    child = os.fork()
    if child == 0:
        print("in a forked child", flush=True)
        tell(call)
        os._exit(0)
    os.waitpid(child, 0)


def main() -> None:
    """Makes all calls."""
    os.environ["OPENREG_DEVICE_COUNT"] = "none"
    tell("torch.openreg.init()")
    os.environ["OPENREG_DEVICE_COUNT"] = "3"
    print("from here on, OPENREG_DEVICE_COUNT is 3", flush=True)
    tell_in_child("torch.openreg.init()")
    tell("torch.accelerator.device_count()")
    tell("len(torch.accelerator.memory_stats())")
    tell("torch.openreg.init()")
    tell("len(torch.accelerator.memory_stats()) > 0")
    tell_in_child("torch.openreg.init()")


if __name__ == "__main__":
    main()
