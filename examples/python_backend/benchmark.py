"""Measures the cost of calls and transports: microseconds of an operator, milliseconds of a training step.

python benchmark.py
"""

from __future__ import annotations

import importlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch

torch_remote = importlib.import_module("torch_remote")

WAYS = {
    "foreseen": {},
    "foreseen, and forgotten at once": {"FORGET": "1"},
    "asked": {"TORCH_REMOTE_LAYOUTS": "ask"},
    "foreseen, without C++": {"TORCH_REMOTE_BASE": "uncompiled"},
}


def seconds(run: Callable[[], object], times: int) -> float:
    """The median time of one call over some rounds. Each round ends when the device has done its work."""
    rounds = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(times):
            run()
        torch.zeros(1, device="remote").item()
        rounds.append((time.perf_counter() - begin) / times)
    return statistics.median(rounds)


def calls() -> None:
    """Prints a row: microseconds of single calls, and milliseconds of a step of a small network."""
    torch_remote.register()
    if "FORGET" in os.environ:
        foresee = torch_remote.calls.foresee
        torch_remote.calls.foresee = lambda call: torch_remote.calls._foreseen.clear() or foresee(call)
    x = torch.ones(8, 8, device="remote")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to("remote")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inputs = torch.randn(16, 32).to("remote")

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    runs = {"x + x": lambda: x + x, "x.add_(1)": lambda: x.add_(1), "x.t()": x.t, "x @ x": lambda: x @ x}
    micro = [f"{1e6 * seconds(run, 200):.0f}" for run in runs.values()]
    item = f"{1e6 * seconds(lambda: x[0, 0].item(), 200):.0f}"
    print(f"| {' | '.join([*micro, item])} | {1e3 * seconds(step, 20):.1f} |")


def transports() -> None:
    """Prints how fast tensors travel in the message and in shared memory."""
    torch_remote.register()
    print("| bytes | transport | to the device, MB/s | back, MB/s |\n| --- | --- | --- | --- |")
    for nbytes, large in ((4096, 1 << 14), (48 << 10, 1 << 16), (48 << 10, 1 << 14), (48 << 20, 1 << 14)):
        torch_remote.device.wire.LARGE = large
        host = torch.ones(nbytes, dtype=torch.uint8)
        device = host.to("remote")
        times = 3 if nbytes > 1 << 20 else 50
        there, back = seconds(lambda: device.copy_(host), times), seconds(device.cpu, times)  # noqa: B023
        name = "socket" if nbytes < large else "shared memory"
        print(f"| {nbytes} | {name} | {nbytes / there / 1e6:.0f} | {nbytes / back / 1e6:.0f} |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"calls": calls, "transports": transports}[sys.argv[1]]()
        sys.exit()
    print("| layouts | x + x, µs | x.add_(1), µs | x.t(), µs | x @ x, µs | item(), µs | step, ms |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, environment in WAYS.items():
        print(f"| {name} ", end="", flush=True)
        subprocess.run([sys.executable, __file__, "calls"], env={**os.environ, **environment}, check=True)
    print(flush=True)
    subprocess.run([sys.executable, __file__, "transports"], check=True)
