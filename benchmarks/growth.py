"""Counts the work of a training step, measures how a call's cost grows, and weighs tensors, streams and events.

Run it with `make bench`, or alone: `python benchmarks/growth.py`. It writes benchmarks/results/growth.md.
"""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _turns import Call, low, microseconds, write  # type: ignore[import-not-found]  # beside this script
from operators import training_step  # type: ignore[import-not-found]  # beside this script
from torch.utils._python_dispatch import TorchDispatchMode

HERE = Path(__file__).parent
CALLS = 2000  # per thread
ROUNDS = 15


class Dispatches(TorchDispatchMode):
    """Counts the operators that reach the backend; those with composite kernels count by their parts."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Counts a call."""
        self.seen[str(func)] += 1
        return func(*args, **(kwargs or {}))


def count_step() -> None:
    """Prints the counts of one training step; needs the counters of _driver_calls.cpp."""
    counters = ctypes.CDLL(os.environ["LD_PRELOAD"])
    with torch.autograd.set_multithreading_enabled(False):
        step = training_step("openreg")
        step()  # creates the optimizer's state
        torch.openreg.reset_fallback_stats()
        before = counters.launches(), counters.copies()
        step()
        launches, copies = counters.launches() - before[0], counters.copies() - before[1]
        fallbacks = sum(torch.openreg.fallback_stats().values())
        with Dispatches() as dispatches:
            step()
    counts = {"dispatches": dispatches.seen.total(), "launches": launches, "copies": copies, "fallbacks": fallbacks}
    print(json.dumps(counts))


def counted_step() -> dict[str, int]:
    """The counts of count_step, from a process with the counters preloaded."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "driver_calls.so"
        options = ["-std=c++20", "-O1", "-fPIC", "-shared", f"-I{HERE.parent / 'csrc' / 'driver'}"]
        command = [*shlex.split(os.environ.get("CXX") or "c++"), *options, str(HERE / "_driver_calls.cpp")]
        subprocess.run([*command, "-o", str(library)], check=True)
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        script = [sys.executable, __file__, "--count-step"]
        ran = subprocess.run(script, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    counts: dict[str, int] = json.loads(ran.stdout)
    return counts


def add(device: str) -> Call:
    """`x + x` of 16 elements."""
    x = torch.randn(16).to(device)
    return lambda: x + x


def with_tensors(count: int) -> list[float]:
    """Microseconds of the call on both devices while other tensors are alive, with as many free blocks between them."""
    held = []
    for device in ("cpu", "openreg"):
        tensors = [torch.empty(100 + i % 1000, device=device) for i in range(2 * count)]
        held.append(tensors[::2])
        del tensors
    return microseconds((add("cpu"), add("openreg")))  # type: ignore[no-any-return]


def with_streams(count: int) -> list[float]:
    """Microseconds of a call on one stream after another, next to the CPU's call with the same switches."""
    streams = [torch.Stream("openreg") for _ in range(count)]
    on_device, on_cpu = add("openreg"), add("cpu")

    def switching(call: Call) -> Call:
        def all_streams() -> None:
            for stream in streams:
                with stream:
                    call()

        return all_streams

    return [each / count for each in microseconds((switching(on_cpu), switching(on_device)))]


def with_threads(count: int) -> list[float]:
    """Microseconds of a call on both devices, averaged over all threads."""

    def seconds(call: Call) -> float:
        def work() -> None:
            for _ in range(CALLS):
                call()

        threads = [threading.Thread(target=work) for _ in range(count)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.accelerator.synchronize()
        return (time.perf_counter() - start) / (CALLS * count)

    both = add("cpu"), add("openreg")
    rounds = [[seconds(call) for call in both] for _ in range(ROUNDS)]
    return [low(times) * 1e6 for times in zip(*rounds, strict=True)]


def alone() -> None:
    """Prints the microseconds of the call on both devices, with a tensor on each simulated device."""
    torch.set_num_threads(1)
    held = [torch.ones(16, device=torch.device("openreg", i)) for i in range(torch.openreg.device_count())]
    print(json.dumps(microseconds((add("cpu"), add("openreg")))))
    del held


def children(count: int, argument: str, **environment: str) -> list[Any]:
    """What so many processes print that run this script at the same time."""
    command = [sys.executable, __file__, argument]
    ran = [
        subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    outputs = [process.communicate()[0] for process in ran]
    if any(process.returncode != 0 for process in ran):
        raise RuntimeError(f"growth.py {argument} failed: see above")
    return [json.loads(output) for output in outputs]


def with_devices(count: int) -> list[float]:
    """Microseconds of the call on both devices, in a process that uses so many simulated devices."""
    (times,) = children(1, "--alone", OPENREG_DEVICE_COUNT=str(count))
    return times  # type: ignore[no-any-return]


def with_processes(count: int) -> list[float]:
    """Microseconds of the call on both devices, averaged over so many processes that run at the same time."""
    return [sum(times) / count for times in zip(*children(count, "--alone"), strict=True)]


def resident() -> int:
    """The bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def weigh() -> None:
    """Prints the bytes of host memory for each object of a kind."""
    busy = torch.ones(16, device="openreg")

    def stream() -> torch.Stream:
        made = torch.Stream("openreg")
        with made:
            torch.openreg._sleep(1000)  # queued: now it has a thread
        return made

    def event() -> torch.Event:
        made = torch.Event("openreg")
        made.record()
        return made

    kinds: list[tuple[str, int, Callable[[], object]]] = [
        ("tensor of 16 elements on the CPU", 100_000, lambda: torch.empty(16)),
        ("tensor of 16 elements on the device", 100_000, lambda: torch.empty(16, device="openreg")),
        ("view of a tensor on the device", 100_000, lambda: busy.view(16)),
        ("event", 100_000, event),
        ("stream with a thread", 31, stream),
    ]
    weights = {}
    held: list[object] = []  # of all kinds: what is freed would be used again
    for name, count, make in kinds:
        held.append(make())
        before = resident()
        held += [make() for _ in range(count)]
        weights[name] = (resident() - before) / count
    print(json.dumps(weights))


def growth(measure: Callable[[int], list[float]], counts: list[int], what: str) -> str:
    """A table of one measurement."""
    lines = [f"| {what} | CPU, us | device, us | ratio |", "| ---: | ---: | ---: | ---: |"]
    for count in counts:
        on_cpu, on_device = measure(count)
        print(f"{what}: {count}: {on_device / on_cpu:.2f}", flush=True)
        lines.append(f"| {count} | {on_cpu:.2f} | {on_device:.2f} | {on_device / on_cpu:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measures, prints and writes the tables."""
    torch.set_num_threads(1)
    rows = [f"| {name} | {count} |" for name, count in counted_step().items()]
    step = ["| of one training step | |", "| --- | ---: |", *rows]
    tables = [
        "\n".join(step),
        growth(with_tensors, [0, 1000, 10_000, 100_000], "tensors alive"),
        growth(with_streams, [1, 4, 16, 32], "streams"),
        growth(with_threads, [1, 2, 4, 8], "threads"),
    ]
    tables += [growth(with_devices, [1, 2, 4, 16], "devices"), growth(with_processes, [1, 2, 4], "processes")]
    (weights,) = children(1, "--weigh", OPENREG_LAUNCH="async")
    rows = [f"| {name} | {bytes_:,.0f} |" for name, bytes_ in weights.items()]
    tables.append("\n".join(["| each | bytes of the host |", "| --- | ---: |", *rows]))
    file = write(__file__, "\n\n".join(tables))
    print(f"benchmarks/growth.py: {len(tables)} tables in {file}")


if __name__ == "__main__":
    {"--count-step": count_step, "--alone": alone, "--weigh": weigh}.get(sys.argv[-1], main)()
