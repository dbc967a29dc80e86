"""A device cannot be used in a process that was forked after the device was started: there, every use is an error."""

from __future__ import annotations

import os

import torch


def main() -> None:
    """Uses the device, forks, and uses it again in the child."""
    torch.ones(2, device="openreg")
    child = os.fork()
    if child == 0:
        try:
            torch.ones(2, device="openreg")
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
