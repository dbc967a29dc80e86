"""Work for the device is queued: the program goes on while the device is busy, and waits where it needs a value."""

from __future__ import annotations

import ctypes

import torch


def keep_busy(stream: torch.Stream, seconds: float) -> None:
    """Queues the driver's sleep kernel on a stream, in place of work that takes noticeably long."""
    driver = ctypes.CDLL("libopenreg.so")  # the one that the backend has loaded
    kernel = ctypes.c_void_p()
    found = driver.orGetKernel(ctypes.byref(kernel), b"sleep")
    nanoseconds = ctypes.c_uint64(int(seconds * 1e9))
    size = ctypes.c_size_t(ctypes.sizeof(nanoseconds))
    launched = driver.orLaunchKernel(kernel, ctypes.byref(nanoseconds), size, ctypes.c_void_p(stream.native_handle))
    assert (found, launched) == (0, 0)


# LITERALINCLUDE START: quickstart-asynchronous
def main() -> None:
    """Queues work behind a kernel of half a second, and looks at the stream before and after."""
    host = torch.arange(4.0).neg().pin_memory()
    stream = torch.accelerator.current_stream("openreg")
    start = torch.Event(device="openreg", enable_timing=True)
    end = torch.Event(device="openreg", enable_timing=True)

    start.record(stream)
    keep_busy(stream, seconds=0.5)
    result = host.to("openreg", non_blocking=True).abs()
    end.record(stream)

    print("queued: finished is", stream.query(), "and the event was reached:", end.query())
    print("the value waits:", result.tolist())
    print("now: finished is", stream.query(), "and the event was reached:", end.query())
    print("half a second or more between the events:", start.elapsed_time(end) >= 500)


# LITERALINCLUDE END: quickstart-asynchronous

if __name__ == "__main__":
    main()
