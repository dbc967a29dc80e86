"""What a capture finds when the driver resets its device."""

from __future__ import annotations

import ctypes

import torch

driver = ctypes.CDLL("libopenreg.so")  # the one that the backend has loaded


# LITERALINCLUDE START: graph-device-reset
def main() -> None:
    """Resets the device that captures, and prints what the graph and the device answer."""
    x, graph = torch.zeros(2, device="openreg:1"), torch.accelerator.Graph()
    with torch.Stream("openreg:1"):
        graph.capture_begin()
        x.add_(1)
        status = driver.orDeviceReset()
        assert status == 0
        for call in (graph.capture_end, graph.replay):
            try:
                call()
            except RuntimeError as error:
                print(f"{call.__name__}: {error}")
        del call, graph  # a destructor cannot raise: it warns
    print("the other device:", torch.ones(2, device="openreg:0").tolist())


# LITERALINCLUDE END: graph-device-reset

if __name__ == "__main__":
    main()
