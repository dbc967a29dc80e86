"""What the runtime costs: memory, streams, events, synchronisation and copies, beside CPU PyTorch in the same run.

Run it with `make bench`, or alone: `python benchmarks/runtime.py`. It writes benchmarks/results/runtime.md.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import torch
from _turns import Call, low, microseconds, write  # type: ignore[import-not-found]  # beside this script

MIB = 1 << 20
COPY = 16 * MIB  # float32: 64 MiB
ROUNDS = 15


def churn(device: str) -> Call:
    """A thousand tensors of mixed sizes, of which a hundred are alive at a time: memory in pieces."""
    sizes = random.Random(0).choices([100, 1000, 5000, 50_000, 400_000, 3_000_000], [30, 30, 20, 10, 8, 2], k=1000)

    def call() -> None:
        alive: list[torch.Tensor | None] = [None] * 100
        for i, size in enumerate(sizes):
            alive[i * 7 % 100] = torch.empty(size, dtype=torch.uint8, device=device)

    return call


def small_calls() -> dict[str, tuple[Call, Call]]:
    """By name: the call on the device, and what of CPU PyTorch it is compared with."""
    stream, other, event = torch.accelerator.current_stream(), torch.Stream("openreg"), torch.Event("openreg")
    timed = torch.Event("openreg", enable_timing=True)
    x, y = torch.randn(16, device="openreg"), torch.randn(16)
    first, first_of_cpu = x[0], y[0]

    def add() -> None:
        y.add(y)

    def switch() -> None:
        with other:
            pass

    def hand_off() -> None:
        torch.openreg._sleep(0)
        stream.synchronize()

    def wait_for_each_other() -> None:
        other.wait_stream(stream)
        stream.wait_stream(other)

    return {
        "empty(16)": (lambda: torch.empty(16, device="openreg"), lambda: torch.empty(16)),
        "empty, 4 MB": (lambda: torch.empty(MIB, device="openreg"), lambda: torch.empty(MIB)),
        "1000 tensors of mixed sizes": (churn("openreg"), churn("cpu")),
        "view": (lambda: x.view(4, 4), lambda: y.view(4, 4)),
        "item": (first.item, first_of_cpu.item),
        "event.record": (lambda: event.record(stream), add),
        "event.record, with timing": (lambda: timed.record(stream), add),
        "event.query": (event.query, add),
        "stream.query": (stream.query, add),
        "with stream": (switch, add),
        "wait_stream, both ways": (wait_for_each_other, add),
        "synchronize, idle": (torch.accelerator.synchronize, add),
        "hand-off: queue to a thread and wait": (hand_off, add),
    }


def busy_enqueue() -> tuple[float, float]:
    """Microseconds to queue abs on a stream that is busy, and for abs on the CPU."""
    x, y = torch.randn(16, device="openreg"), torch.randn(16)
    on_device: list[float] = []
    on_cpu: list[float] = []
    for _ in range(ROUNDS):
        torch.openreg._sleep(20_000_000)
        for call, seconds in ((lambda: torch.abs(x), on_device), (lambda: torch.abs(y), on_cpu)):
            start = time.perf_counter()
            for _ in range(200):
                call()
            seconds.append((time.perf_counter() - start) / 200)
        torch.accelerator.synchronize()
    return low(on_device) * 1e6, low(on_cpu) * 1e6


def copies() -> list[tuple[str, float, float, float]]:
    """For each kind of copy of 64 MiB, in milliseconds: until the host goes on, until it is done, and on the CPU."""
    device, pageable, pinned = torch.zeros(COPY, device="openreg"), torch.ones(COPY), torch.ones(COPY).pin_memory()
    second = torch.zeros(COPY, device="openreg:1")
    kinds: dict[str, Callable[[], object]] = {
        "to the device, pageable": lambda: device.copy_(pageable),
        "to the device, pinned": lambda: device.copy_(pinned),
        "to the device, pinned, non_blocking": lambda: device.copy_(pinned, non_blocking=True),
        "to the host, pageable": lambda: pageable.copy_(device),
        "to the host, pinned": lambda: pinned.copy_(device),
        "to the host, pinned, non_blocking": lambda: pinned.copy_(device, non_blocking=True),
        "clone": lambda: device.clone(),
        "to another device": lambda: second.copy_(device),
    }
    target = torch.empty(COPY)
    rows = []
    for name, call in kinds.items():
        goes_on: list[float] = []
        done: list[float] = []
        cpu: list[float] = []
        for _ in range(ROUNDS):
            for device_call, host, end in ((call, goes_on, done), (lambda: target.copy_(pageable), cpu, [])):
                start = time.perf_counter()
                result = device_call()
                host.append(time.perf_counter() - start)
                torch.accelerator.synchronize()
                torch.accelerator.synchronize(1)
                end.append(time.perf_counter() - start)
                del result
        rows.append((name, low(goes_on) * 1e3, low(done) * 1e3, low(cpu) * 1e3))
    return rows


def overlap() -> float:
    """How much sooner host and device are done together than one after the other: 2 is all that two processors give.

    Both get work for about the same time.
    """
    x, y = torch.randn(4 * MIB, device="openreg"), torch.randn(4 * MIB)
    result, host_result = torch.empty_like(x), torch.empty_like(y)

    def on_device() -> None:
        for _ in range(20):
            torch.abs(x, out=result)

    def on_host() -> None:
        for _ in range(calls):
            torch.exp(y, out=host_result)

    def together() -> None:
        on_device()
        on_host()

    def seconds(work: Callable[[], None]) -> float:
        torch.accelerator.synchronize()
        start = time.perf_counter()
        work()
        torch.accelerator.synchronize()
        return time.perf_counter() - start

    calls = 1
    calls = round(low([seconds(on_device) for _ in range(ROUNDS)]) / low([seconds(on_host) for _ in range(ROUNDS)]))
    taken = [[seconds(work) for work in (on_device, on_host, together)] for _ in range(ROUNDS)]
    device, host, both = (low(column) for column in zip(*taken, strict=True))
    faster: float = (device + host) / both
    return faster


def fork_time() -> tuple[float, float]:
    """Milliseconds of a fork with 1 GiB of device memory in use, and without."""

    def fork() -> float:
        start = time.perf_counter()
        if (child := os.fork()) == 0:
            os._exit(0)
        took = time.perf_counter() - start
        os.waitpid(child, 0)
        return took

    without = low([fork() for _ in range(ROUNDS)])
    memory = torch.ones(256 * MIB, device="openreg")
    torch.accelerator.synchronize()
    with_memory = low([fork() for _ in range(ROUNDS)])
    del memory
    return with_memory * 1e3, without * 1e3


def main() -> None:
    """Measures, prints and writes the tables."""
    torch.set_num_threads(1)
    lines = ["| call | device, us | CPU, us | ratio |", "| --- | ---: | ---: | ---: |"]
    rows = {name: microseconds(pair) for name, pair in small_calls().items()}
    rows["abs(16), queued on a busy stream"] = list(busy_enqueue())
    for name, (device, cpu) in rows.items():
        print(f"{name}: {device:.2f} us, {device / cpu:.2f}", flush=True)
        lines.append(f"| {name} | {device:.2f} | {cpu:.2f} | {device / cpu:.2f} |")
    lines += ["", "What has no counterpart on the CPU stands beside the sum of two tensors of 16 elements there.", ""]
    lines += [
        "| copy of 64 MiB | host goes on, ms | done, ms | on the CPU, ms | ratio |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, goes_on, done, cpu in copies():
        print(f"{name}: {goes_on:.3f} ms, done {done:.2f} ms, {done / cpu:.2f}", flush=True)
        lines.append(f"| {name} | {goes_on:.3f} | {done:.2f} | {cpu:.2f} | {done / cpu:.2f} |")
    with_memory, without = fork_time()
    lines += [
        "",
        f"Host and device at work together are {overlap():.2f} times as fast as one after the other, on "
        f"{len(os.sched_getaffinity(0))} processors. A fork takes {with_memory:.2f} ms with 1 GiB in use on the "
        f"device, and {without:.2f} ms without.",
    ]
    print(lines[-1])
    print(f"benchmarks/runtime.py: {len(rows) + 8} calls, tables in {write(__file__, chr(10).join(lines))}")


if __name__ == "__main__":
    main()
