"""Profiles steps of examples/train_a_model.py on the device and writes the trace to a given file."""

from __future__ import annotations

import os
import sys
from collections import Counter
from itertools import islice

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from examples.train_a_model import start, step


# LITERALINCLUDE START: profiler-train-step
def profiled_step(file: str) -> profile:
    """Makes eight steps, and records the last five, on the host and on the device."""
    model, loader, optimizer = start("openreg")
    batches = list(islice(loader, 8))
    recorded = profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
        schedule=schedule(wait=2, warmup=1, active=5),
        on_trace_ready=lambda recorded: recorded.export_chrome_trace(file),
    )
    with recorded:
        for batch in batches:
            with record_function("copy the batch"):
                images, kinds = (tensor.to("openreg", non_blocking=True) for tensor in batch)
            step(model, optimizer, images, kinds)
            recorded.step()
    return recorded


# LITERALINCLUDE END: profiler-train-step


def main(file: str) -> None:
    """Records, and prints how many kernels and copies there are in a step."""
    torch.set_num_threads(1)
    kinds = Counter(event.activity_type for event in profiled_step(file).events())
    print(*(f"{kinds[kind] / 5:g} x {kind}" for kind in ("kernel", "gpu_memcpy")), sep=", ")


if __name__ == "__main__":
    main(sys.argv[1])
