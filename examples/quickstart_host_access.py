"""Host code that reads device memory crashes, and the driver says why."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

import torch


def read_device_memory() -> None:
    """Reads the first byte of a device tensor as if it were host memory. Does not return."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tensor = torch.ones(2, device="openreg")
    ctypes.string_at(tensor.data_ptr(), 1)


def main() -> None:
    """Does it in a child process, and prints how that ended."""
    if (child := os.fork()) == 0:
        read_device_memory()
    print(f"the process was killed by {signal.Signals(os.WTERMSIG(os.waitpid(child, 0)[1])).name}")


if __name__ == "__main__":
    main()
