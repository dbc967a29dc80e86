"""Trains for an hour and measures what grows meanwhile; then moves, trains, saves and loads a model of two gigabytes.

    python benchmarks/long_run.py                              writes benchmarks/results/long_run.md
    python benchmarks/long_run.py --seconds 60 --layers 2      a try

Each round does what a training program does, and ends with everything deleted: batches from pinned memory, copied on a
stream of their own; a model in mixed precision; an optimizer; a checkpoint that is saved and loaded; calls that fail.
Exits with 1 if memory, threads, open files or Python objects have grown after the first fifth of the time.
"""

from __future__ import annotations

import argparse
import gc
import io
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENREG_DEVICE_MEMORY", "16G")  # for the large model

import torch
from _turns import write  # type: ignore[import-not-found]  # beside this script
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.models import networks
from tests.models.training import Batch, Subject

MIB = 1 << 20
STEPS = 20  # in a round
WAYS: list[dict[str, Any]] = [{"fused": True}, {"foreach": True}, {"foreach": False}]  # of the optimizer
SUBJECTS = list(networks.NETWORKS.values())
# How much may be more at the end than after a fifth of the time: the allocators of the host round up and keep.
ALLOWED = {"host, MiB": 32.0, "device, MiB": 0.0, "reserved, MiB": 0.0, "threads": 0, "files": 0, "objects": 200}


@dataclass
class Sample:
    """What the process holds between two rounds."""

    seconds: float
    steps: int
    held: dict[str, float]


def held() -> dict[str, float]:
    """Memory of the host and of the device, threads, open files, Python objects."""
    gc.collect()
    torch.accelerator.synchronize()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "host, MiB": resident / MIB,
        "device, MiB": torch.openreg.memory_allocated() / MIB,
        "reserved, MiB": torch.openreg.memory_reserved() / MIB,
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "objects": len(gc.get_objects()),
    }


def batches(subject: Subject) -> Iterator[Batch]:
    """Batches of pinned memory, copied to the device on a stream of their own."""
    inputs, targets = subject.draw().values()
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=len(inputs) // 2, pin_memory=True, shuffle=True)
    copies = torch.Stream("openreg")
    while True:
        for batch in loader:
            with copies:
                moved = [part.to("openreg", non_blocking=True) for part in batch]
            torch.accelerator.current_stream().wait_stream(copies)
            for part in moved:
                part.record_stream(torch.accelerator.current_stream())
            yield {"inputs": moved[0], "targets": moved[1]}


def fails() -> None:
    """Calls that are refused: the device goes on, and they leave nothing behind."""
    three, four = torch.ones(3, device="openreg"), torch.ones(4, device="openreg")
    seven = torch.tensor([7], device="openreg")
    calls: list[tuple[str, Callable[[], object], type[Exception]]] = [
        ("a tensor of 2^50 elements", lambda: torch.empty(1 << 50, device="openreg"), torch.OutOfMemoryError),
        ("3 elements + 4 elements", lambda: three + four, RuntimeError),
        ("element 7 of 3", lambda: three[seven].cpu(), IndexError),
    ]
    for what, call, error in calls:
        with suppress(error):
            call()
            raise AssertionError(f"{what}: {error.__name__} was expected, and the call returned")


def train(number: int) -> None:
    """One round: a model is made, trained, saved and loaded."""
    subject = SUBJECTS[number % len(SUBJECTS)]
    model = subject.make().to("openreg")
    way = WAYS[number % len(WAYS)]
    optimizer = torch.optim.AdamW(model.parameters(), **way)
    scaler = torch.amp.GradScaler("openreg")
    for batch in itertools.islice(batches(subject), STEPS):
        optimizer.zero_grad()
        with torch.autocast("openreg", torch.bfloat16):
            loss = subject.loss(model, batch)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    if not torch.isfinite(loss):
        raise RuntimeError(f"the loss of {type(model).__name__} is {loss.item()}")
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, map_location="openreg")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    fails()


def run(seconds: float) -> list[Sample]:
    """Trains round after round. A sample is taken about every hundredth of the time."""
    start = time.monotonic()
    samples: list[Sample] = []
    rounds = 0
    due = 0.0
    while (now := time.monotonic() - start) < seconds or len(samples) < 3:
        train(rounds)
        rounds += 1
        if now >= due and rounds % len(SUBJECTS) == 0:
            samples.append(Sample(time.monotonic() - start, rounds * STEPS, held()))
            due = now + seconds / 100
            shown = ", ".join(f"{name} {value:.0f}" for name, value in samples[-1].held.items())
            print(f"{samples[-1].seconds:6.0f} s, {samples[-1].steps} steps: {shown}", flush=True)
    return samples


def grown(samples: list[Sample]) -> list[str]:
    """What is more in the last fifth of the time than in the second one, by more than is allowed.

    The least of each: the host's allocator gives memory back now and then, and a sample may be taken just before.
    """
    fifths = [
        [one.held for one in samples if first <= one.seconds / samples[-1].seconds <= first + 0.2] or [samples[0].held]
        for first in (0.2, 0.8)
    ]
    before, after = ({name: min(held[name] for held in fifth) for name in ALLOWED} for fifth in fifths)
    more = {name: after[name] - before[name] for name in ALLOWED}
    return [f"{name}: {more[name]:.1f} more, of {ALLOWED[name]} allowed" for name in more if more[name] > ALLOWED[name]]


def table_of(samples: list[Sample]) -> str:
    """Some of the samples: after a tenth of the time, and then after each fifth."""
    names = list(samples[0].held)
    lines = [f"| minutes | steps | {' | '.join(names)} |", f"| {' | '.join(['---:'] * (len(names) + 2))} |"]
    last = samples[-1].seconds
    for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0):
        sample = next(sample for sample in samples if sample.seconds >= share * last)
        values = " | ".join(f"{value:.0f}" for value in sample.held.values())
        lines.append(f"| {sample.seconds / 60:.1f} | {sample.steps} | {values} |")
    return "\n".join(lines)


def seconds_of(call: Callable[[], object]) -> float:
    """How long a call takes, and the work that it queues."""
    start = time.perf_counter()
    call()
    torch.accelerator.synchronize()
    return time.perf_counter() - start


def load(state: dict[str, torch.Tensor], file: Path, device: str) -> None:
    """Reads tensors of a file into a dictionary."""
    state.update(torch.load(file, map_location=device))


def large_model(layers: int) -> str:
    """A model of `layers` times 64 MiB: moved, trained for a step, saved and loaded, and the same on the CPU."""
    torch.manual_seed(0)
    here = nn.Sequential(*(nn.Linear(4096, 4096, bias=False) for _ in range(layers)))
    x = torch.randn(16, 4096)
    there = nn.Sequential(*(nn.Linear(4096, 4096, bias=False, device="meta") for _ in range(layers)))
    state: dict[str, torch.Tensor] = {}
    times: dict[str, dict[str, float]] = {"CPU": {}, "device": {}}

    def move() -> None:
        state.update({name: value.to("openreg") for name, value in here.state_dict().items()})
        there.load_state_dict(state, assign=True)

    times["CPU"]["move"] = seconds_of(lambda: [value.clone() for value in here.state_dict().values()])
    times["device"]["move"] = seconds_of(move)
    losses = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, model, device in (("CPU", here, "cpu"), ("device", there, "openreg")):
            inputs = x.to(device)
            for parameter in model.parameters():
                parameter.requires_grad_()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

            def step(model: nn.Module = model, inputs: torch.Tensor = inputs, name: str = name) -> None:
                loss = model(inputs).square().mean()
                loss.backward()
                losses[name] = loss.item()

            times[name]["forward and backward"] = seconds_of(step)
            times[name]["first step of SGD with momentum"] = seconds_of(optimizer.step)
            times[name]["second"] = seconds_of(optimizer.step)
            file = Path(folder, name)
            times[name]["save"] = seconds_of(partial(torch.save, model.state_dict(), file))
            loaded: dict[str, torch.Tensor] = {}
            times[name]["load"] = seconds_of(partial(load, loaded, file, device))
            if not all(torch.equal(loaded[key], value) for key, value in model.state_dict().items()):
                raise RuntimeError(f"what was loaded on the {name} is not what was saved")
            file.unlink()
            # Else the other's memory would be short.
            del optimizer, loaded
            for parameter in model.parameters():
                parameter.grad = None
    if abs(losses["device"] / losses["CPU"] - 1) > 1e-5:
        raise RuntimeError(f"the losses differ: {losses}")
    parameters = layers * 64
    lines = [f"| {parameters} MiB of parameters | CPU, s | device, s | ratio |", "| --- | ---: | ---: | ---: |"]
    for what, cpu in times["CPU"].items():
        there_too = times["device"][what]
        lines.append(f"| {what} | {cpu:.2f} | {there_too:.2f} | {there_too / cpu:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measures, prints and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600, help="how long to train (default: an hour)")
    parser.add_argument("--layers", type=int, default=32, help="size of the large model, in 64 MiB (default: 32)")
    parser.add_argument("--no-table", action="store_true", help="print, and leave the table as it is")
    options = parser.parse_args()
    torch.set_num_threads(1)
    samples = run(options.seconds)
    # Measured the second time, with memory that the pool has kept: the first access to new memory is slow.
    large_model(options.layers)
    large = large_model(options.layers)
    print(table_of(samples), large, sep="\n\n")
    where = "" if options.no_table else f", tables in {write(__file__, f'{table_of(samples)}{chr(10) * 2}{large}')}"
    if faults := grown(samples):
        sys.exit(f"benchmarks/long_run.py: it grew: {'; '.join(faults)}{where}")
    print(f"benchmarks/long_run.py: {samples[-1].steps} steps in {samples[-1].seconds:.0f} s, nothing grew{where}")


if __name__ == "__main__":
    main()
