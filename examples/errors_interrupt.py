"""Ctrl-C while a program waits for the device: the wait ends, the work goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import torch

SECOND = 1_000_000_000
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells make background programs ignore Ctrl-C


# LITERALINCLUDE START: errors-interrupt-waits
def interrupted(wait: Callable[[], object]) -> str:
    """What happens to a wait for two seconds of work when Ctrl-C is pressed soon after its start."""
    torch.openreg._sleep(2 * SECOND)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        wait()
    except KeyboardInterrupt:
        soon = time.monotonic() - start < 1
        return f"KeyboardInterrupt, {'soon' if soon else 'late'}; the work goes on: {not stream.query()}"
    return "not interrupted"  # NOT PROVEN: needs a wait that Ctrl-C does not end


x = torch.ones(1000, device="openreg")
stream = torch.accelerator.current_stream()
event = torch.Event("openreg")
print("device:", interrupted(torch.accelerator.synchronize))
torch.accelerator.synchronize()
print("stream:", interrupted(stream.synchronize))
event.record(stream)
print("event:", interrupted(event.synchronize))
print("item:", interrupted(x[0].item))
print("values:", x.sum().item())
# LITERALINCLUDE END: errors-interrupt-waits
