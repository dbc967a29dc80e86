"""Measures training with one to four ranks, on the device and with Gloo on CPU tensors, and what a group sets up.

The ways run in turns, in the same process of each rank. Run it with `make bench`, or alone: `python
benchmarks/distributed_scaling.py`. It writes benchmarks/results/distributed_scaling.md.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from _turns import low, write  # type: ignore[import-not-found]  # beside this script
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(Path(__file__).resolve().parents[1]))

from examples.distributed_ranks import on_ranks

# The network of the training: its gradients are those of a small model, and a step computes for some milliseconds.
BATCH, WIDTH, LAYERS = 64, 512, 4
STEPS = 30


class Training:
    """A network that DistributedDataParallel trains, with tensors of one device and one process group."""

    def __init__(self, device: str, group: dist.ProcessGroup | None = None) -> None:
        torch.manual_seed(0)
        layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        self._network = nn.Sequential(*layers).to(device)
        self.model = DistributedDataParallel(self._network, process_group=group)
        self._optimizer = torch.optim.SGD(self._network.parameters(), lr=1e-3)
        self._inputs = torch.ones(BATCH, WIDTH, device=device)

    def step(self) -> None:
        """Forward, backward with the average of all ranks' gradients, and the optimizer."""
        self.model(self._inputs).square().mean().backward()
        self._optimizer.step()
        self._optimizer.zero_grad()

    def alone(self) -> None:
        """A step that exchanges no gradients."""
        with self.model.no_sync():
            self.step()


def trained() -> list[list[float]]:
    """Seconds of each step: with Gloo, staged and direct, then on the CPU and on the device without an exchange."""
    torch.set_num_threads(1)
    os.environ["OPENREG_COLLECTIVES"] = "staged"
    staged = dist.new_group()
    del os.environ["OPENREG_COLLECTIVES"]
    kinds = [Training("cpu"), Training("openreg", staged), Training("openreg")]
    calls = [*(kind.step for kind in kinds), kinds[0].alone, kinds[2].alone]
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(STEPS):
        for call, taken in zip(calls, times, strict=True):
            dist.barrier()
            start = time.perf_counter()
            call()
            torch.openreg.synchronize()
            if turn > 1:  # DistributedDataParallel arranges its buckets in the first two
                taken.append(time.perf_counter() - start)
    return times


def scaling() -> list[str]:
    """The lines of a table: a step takes as long as on the slowest rank."""
    lines = [
        "| ranks | CPU, alone, ms | Gloo, ms | samples/s | device, alone, ms | staged, ms | samples/s | direct, ms "
        "| samples/s |",
        f"|{' ---: |' * 9}",
    ]
    for size in range(1, 5):
        ranks = on_ranks(trained, size=size, backend="cpu:gloo,openreg:staged", seconds=100)
        seconds = [low([max(step) for step in zip(*calls, strict=True)]) for calls in zip(*ranks, strict=True)]
        gloo, staged, direct = (f"{1e3 * each:.1f} | {size * BATCH / each:.0f}" for each in seconds[:3])
        on_cpu, on_device = (f"{1e3 * each:.1f}" for each in seconds[3:])
        if size == 1:
            direct = "as staged |"  # it shares memory with no other
        lines.append(f"| {size} | {on_cpu} | {gloo} | {on_device} | {staged} | {direct} |")
        print(lines[-1])
    return lines


HELD = ("values in the store", "sockets", "other files", "threads")


def held() -> dict[str, int]:
    """What this process holds of the operating system, and how much is in the store of all ranks."""
    files = [os.readlink(file) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    sockets = sum(file.startswith("socket:") for file in files)
    threads = len(list(Path("/proc/self/task").iterdir()))
    counts = (dist.distributed_c10d._get_default_store().num_keys(), sockets, len(files) - sockets, threads)
    return dict(zip(HELD, counts, strict=True))


def added() -> list[dict[str, int]]:
    """What a group adds to what this process holds, and what then its first large collective does."""
    counts = [held()]
    dist.barrier()
    group = dist.new_group(backend="staged")
    dist.barrier()
    counts.append(held())
    dist.barrier()
    dist.all_reduce(torch.zeros(1 << 20, device="openreg"), group=group)
    torch.openreg.synchronize()
    dist.barrier()
    counts.append(held())
    return [{name: now[name] - before[name] for name in now} for before, now in pairwise(counts)]


def set_up() -> list[str]:
    """The lines of a table: what a group and its first large collective add on rank 0, by when Gloo connects."""
    lines = [
        f"| ranks | Gloo connects | {' | '.join(HELD)} | then: {' | '.join(HELD)} |",
        f"| ---: | --- |{' ---: |' * 2 * len(HELD)}",
    ]
    for when, lazy in (("with the group", "0"), ("when it first sends", "1")):
        os.environ["TORCH_GLOO_LAZY_INIT"] = lazy
        for size in (2, 4, 8):
            parts = on_ranks(added, size=size, backend="cpu:gloo,openreg:staged", seconds=100)[0]
            lines.append(f"| {size} | {when} | {' | '.join(str(part[name]) for part in parts for name in HELD)} |")
            print(lines[-1])
    del os.environ["TORCH_GLOO_LAZY_INIT"]
    return lines


def main() -> None:
    """Measures, prints and writes the tables."""
    processors, parameters = len(os.sched_getaffinity(0)), LAYERS * (WIDTH + 1) * WIDTH
    tables = [
        f"`DistributedDataParallel` with one to four ranks, on {processors} processors: {LAYERS} layers with "
        f"{parameters / 1e6:.1f} million parameters, {BATCH} samples for each rank and step. *Alone*: the same step "
        "without an exchange of gradients.",
        "\n".join(scaling()),
        "What one more group of the backend adds on rank 0, and *then* its first large collective. With "
        "`TORCH_GLOO_LAZY_INIT=1`, Gloo connects when it first sends:",
        "\n".join(set_up()),
    ]
    print(f"benchmarks/distributed_scaling.py: tables in {write(__file__, (chr(10) * 2).join(tables))}")


if __name__ == "__main__":
    main()
