"""Host code that reads device memory dies, and the driver says why."""

from __future__ import annotations

import ctypes
import resource
import signal
import subprocess
import sys

import torch


def read_device_memory() -> None:
    """Reads the first byte of a device tensor as if it were host memory. Does not return."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tensor = torch.ones(2, device="openreg")
    ctypes.string_at(tensor.data_ptr(), 1)


def main() -> None:
    """Does it in a child process, and tells how that ended."""
    if sys.argv[1:] == ["--read"]:
        read_device_memory()
    child = subprocess.run([sys.executable, __file__, "--read"], check=False)
    print(f"the process was killed by {signal.Signals(-child.returncode).name}")


if __name__ == "__main__":
    main()
