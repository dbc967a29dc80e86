"""Measures the runtime: memory, streams, events, synchronization and copies, next to CPU PyTorch in the same run.

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
    """A thousand tensors of mixed sizes, a hundred of them alive at a time: fragments memory."""
    sizes = random.Random(0).choices([100, 1000, 5000, 50_000, 400_000, 3_000_000], [30, 30, 20, 10, 8, 2], k=1000)

    def call() -> None:
        alive: list[torch.Tensor | None] = [None] * 100
        for i, size in enumerate(sizes):
            alive[i * 7 % 100] = torch.empty(size, dtype=torch.uint8, device=device)

    return call


def small_calls() -> dict[str, tuple[Call, Call]]:
    """By name: the call on the device, and the call of CPU PyTorch to compare it with."""
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

    device, cpu = torch.device("openreg"), torch.device("cpu")
    return {
        "empty(16)": (lambda: torch.empty(16, device=device), lambda: torch.empty(16, device=cpu)),
        "empty, 4 MB": (lambda: torch.empty(MIB, device=device), lambda: torch.empty(MIB, device=cpu)),
        "empty_like, 16": (lambda: torch.empty_like(x), lambda: torch.empty_like(y)),
        "1000 tensors of mixed sizes": (churn("openreg"), churn("cpu")),
        "view": (lambda: x.view(4, 4), lambda: y.view(4, 4)),
        "item": (first.item, first_of_cpu.item),
        "x[0].item": (lambda: x[0].item(), lambda: y[0].item()),
        "event.record": (lambda: event.record(stream), add),
        "event.record, with timing": (lambda: timed.record(stream), add),
        "event.query": (event.query, add),
        "stream.query": (stream.query, add),
        "with stream": (switch, add),
        "wait_stream, both ways": (wait_for_each_other, add),
        "synchronize, idle": (torch.accelerator.synchronize, add),
        "hand-off: queue to a thread and wait": (hand_off, add),
    }


def busy_enqueue() -> dict[str, list[float]]:
    """By name: microseconds to queue a kernel on a busy stream, and for the same call on the CPU."""
    x, y = torch.randn(16, device="openreg"), torch.randn(16)
    out, out_of_cpu = torch.empty_like(x), torch.empty_like(y)
    pairs: dict[str, tuple[Call, Call]] = {
        "abs(16), queued on a busy stream": (lambda: torch.abs(x), lambda: torch.abs(y)),
        "the same, with out=": (lambda: torch.abs(x, out=out), lambda: torch.abs(y, out=out_of_cpu)),
    }
    rows = {}
    for name, pair in pairs.items():
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            torch.openreg._sleep(20_000_000)
            for call, seconds in zip(pair, taken, strict=True):
                start = time.perf_counter()
                for _ in range(200):
                    call()
                seconds.append((time.perf_counter() - start) / 200)
            torch.accelerator.synchronize()
        rows[name] = [low(seconds) * 1e6 for seconds in taken]
    return rows


def copies() -> list[tuple[str, float, float, float]]:
    """For each kind of copy of 64 MiB, in milliseconds: until the host continues, until it is done, and on the CPU."""
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
    source, target = torch.ones(COPY), torch.zeros(COPY)
    rows = []
    for name, call in kinds.items():
        goes_on: list[float] = []
        done: list[float] = []
        cpu: list[float] = []
        turns = [(call, goes_on, done), (lambda: target.copy_(source), cpu, [])]
        for _ in range(2 * ROUNDS):
            turns.reverse()  # so that neither always finds the caches as the other one left them
            for device_call, host, end in turns:
                start = time.perf_counter()
                result = device_call()
                host.append(time.perf_counter() - start)
                torch.accelerator.synchronize()
                torch.accelerator.synchronize(1)
                end.append(time.perf_counter() - start)
                del result
        rows.append((name, low(goes_on) * 1e3, low(done) * 1e3, low(cpu) * 1e3))
    return rows


def overlap(
    on_device: Callable[[torch.Tensor], object], on_host: Callable[[torch.Tensor], object], elements: int
) -> float:
    """The speedup of running host and device concurrently over one after the other: at most 2 with two processors.

    Both repeat their call on a tensor of ``elements`` elements, for about the same time.
    """
    tensor, host_tensor = torch.ones(elements, device="openreg"), torch.ones(elements)
    calls, host_calls = 20, 1

    def device_work() -> None:
        for _ in range(calls):
            on_device(tensor)

    def host_work() -> None:
        for _ in range(host_calls):
            on_host(host_tensor)

    def together() -> None:
        device_work()
        host_work()

    def seconds(work: Callable[[], None]) -> float:
        torch.accelerator.synchronize()
        start = time.perf_counter()
        work()
        torch.accelerator.synchronize()
        return time.perf_counter() - start

    one_call = low([seconds(host_work) for _ in range(ROUNDS)])
    host_calls = round(low([seconds(device_work) for _ in range(ROUNDS)]) / one_call)
    taken = [[seconds(work) for work in (device_work, host_work, together)] for _ in range(ROUNDS)]
    device, host, both = (low(column) for column in zip(*taken, strict=True))
    faster: float = (device + host) / both
    return faster


def fork_time() -> tuple[float, float]:
    """Milliseconds of a fork with 1 GiB of device memory in use, and with none."""

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
    rows |= busy_enqueue()
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
    computing = overlap(torch.Tensor.normal_, torch.Tensor.normal_, MIB)
    streaming = overlap(torch.Tensor.abs_, torch.Tensor.abs_, 4 * MIB)
    with_memory, without = fork_time()
    lines += [
        "",
        f"Host and device at work together are {computing:.2f} times as fast as one after the other when they compute, "
        f"and {streaming:.2f} times when both stream through memory, on {len(os.sched_getaffinity(0))} processors. A "
        f"fork takes {with_memory:.2f} ms with 1 GiB in use on the device, and {without:.2f} ms without.",
    ]
    print(lines[-1])
    print(f"benchmarks/runtime.py: {len(rows) + 8} calls, tables in {write(__file__, chr(10).join(lines))}")


if __name__ == "__main__":
    main()
