"""Threads, streams and devices at once, through PyTorch: every value is checked, and at the end no byte is left.

    python tests/stress/tensors.py                        100,000 steps on 8 threads, with 4 streams for each device
    python tests/stress/tensors.py --steps 50000 --faults  allocations fail now and then

A step is one of: a tensor to the device, a kernel on another stream, a clone, a copy to the other device, a tensor back
to the host, a tensor freed. Each tensor holds one number in all of its elements, which the step that reads it back
compares. Only events order the streams; a missing wait, a block that is reused too early or bytes of another tensor
show as a wrong number.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch

ALLOCATION_FAULT = 0  # orFaultAllocation
DEVICES = 2
STREAMS = 4
ALIVE = 24
SIZES = [1, 100, 1000, 5000, 60_000, 300_000]


@dataclass(eq=False)
class Held:
    """A tensor all of whose elements are ``value`` when the work of ``stream`` is done."""

    tensor: torch.Tensor
    value: float
    stream: torch.Stream


class Worker(threading.Thread):
    """One thread with streams and tensors of its own; the allocators and the devices are shared."""

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__(name=f"worker {seed}")
        self.random = random.Random(seed)
        self.steps = steps
        self.streams = [[torch.Stream(f"openreg:{device}") for _ in range(STREAMS)] for device in range(DEVICES)]
        self.held: list[Held] = []
        self.counts: Counter[str] = Counter()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Makes the steps. Keeps an error for the thread that joins this one."""
        kinds: list[Callable[[], None]] = [self.upload, self.upload, self.kernel, self.kernel, self.clone, self.move]
        kinds += [self.download, self.download_behind_the_back, self.free]
        try:
            for _ in range(self.steps):
                kind = self.random.choice(kinds)
                try:
                    kind()
                    self.counts[kind.__name__] += 1
                except torch.OutOfMemoryError:
                    self.counts["out of memory"] += 1
                if len(self.held) > ALIVE:
                    self.free()
        except BaseException as error:
            self.error = error
        finally:
            self.held.clear()

    def take(self) -> Held | None:
        """A random tensor of those that are held."""
        return self.random.choice(self.held) if self.held else None

    def other_stream(self, held: Held) -> torch.Stream:
        """A random stream of the tensor's device, which waits for the tensor and is recorded for its memory."""
        stream = self.random.choice(self.streams[held.tensor.device.index])
        stream.wait_event(held.stream.record_event())
        held.tensor.record_stream(stream)
        return stream

    def upload(self) -> None:
        """Copies a tensor to the device; its host memory is freed at once."""
        value = float(self.random.randrange(1, 1000))
        host = torch.full((self.random.choice(SIZES),), -value)
        if self.random.random() < 0.5:
            host = host.pin_memory()
        device = self.random.randrange(DEVICES)
        stream = self.random.choice(self.streams[device])
        with stream:
            self.held.append(Held(host.to(f"openreg:{device}", non_blocking=True), -value, stream))

    def kernel(self) -> None:
        """Runs a kernel, mostly on another stream than that of its input."""
        if held := self.take():
            with (stream := self.other_stream(held)):
                self.held.append(Held(held.tensor.abs(), abs(held.value), stream))

    def clone(self) -> None:
        """Copies within the device; the original is freed while the copy may be running."""
        if held := self.take():
            with (stream := self.other_stream(held)):
                self.held.append(Held(held.tensor.clone(), held.value, stream))
            self.held.remove(held)

    def move(self) -> None:
        """Copies to the other device, ordered between the current streams of both."""
        if held := self.take():
            device = 1 - held.tensor.device.index
            with self.random.choice(self.streams[device]) as target, self.other_stream(held):
                self.held.append(Held(held.tensor.to(f"openreg:{device}"), held.value, target))

    def download(self) -> None:
        """Copies a tensor to the host, and checks it."""
        if held := self.take():
            with self.other_stream(held):
                self.check(held.tensor.cpu(), held.value)

    def download_behind_the_back(self) -> None:
        """The same into pinned memory; the host waits for an event."""
        if held := self.take():
            host = torch.empty(held.tensor.shape, pin_memory=True)
            with (stream := self.other_stream(held)):
                host.copy_(held.tensor, non_blocking=True)
                event = stream.record_event()
            event.synchronize()
            assert event.query()
            self.check(host, held.value)

    def free(self) -> None:
        """Drops a tensor's last reference; kernels that read it may be queued."""
        if self.held:
            self.held.pop(self.random.randrange(len(self.held)))

    def check(self, host: torch.Tensor, value: float) -> None:
        """Compares all elements."""
        if not bool((host == value).all()):
            wrong = host[host != value]
            raise AssertionError(
                f"{self.name}: {wrong.numel()} of {host.numel()} are {wrong[:3].tolist()}, not {value}"
            )


class Faults(threading.Thread):
    """Makes one to three allocations of the driver in a row fail, again and again."""

    def __init__(self) -> None:
        super().__init__(name="faults")
        self.stop = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Injects until it is stopped. Keeps an error for the thread that joins this one."""
        driver = ctypes.CDLL("libopenreg.so")  # the one that the backend has loaded
        chosen = random.Random(0)
        try:
            while not self.stop.wait(0.01):
                error = driver.orInjectFault(ALLOCATION_FAULT, chosen.randrange(DEVICES), chosen.randrange(1, 4))
                assert error == 0
                torch.accelerator.empty_cache()
            for device in range(DEVICES):
                error = driver.orInjectFault(ALLOCATION_FAULT, device, 0)
                assert error == 0
        except BaseException as error:
            self.error = error


def left() -> dict[str, int]:
    """The bytes that are still allocated when none should be, by place."""
    torch.accelerator.empty_cache()
    torch.accelerator.empty_host_cache()
    found = {"pinned": int(torch.openreg.host_memory_stats()["allocated_bytes.current"])}
    for device in range(DEVICES):
        found[f"openreg:{device}"] = torch.accelerator.memory_reserved(device)
        free, total = torch.openreg.mem_get_info(device)
        found[f"openreg:{device}, by the driver"] = total - free
    return {where: count for where, count in found.items() if count}


def main() -> int:
    """Runs the threads. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", action="store_true", help="let allocations fail")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.ones(1, device="openreg")
    started = time.monotonic()
    workers = [Worker(asked.seed * 1000 + number, asked.steps // asked.threads) for number in range(asked.threads)]
    faults = [Faults()] if asked.faults else []
    for thread in [*workers, *faults]:
        thread.start()
    for worker in workers:
        worker.join()
    for thread in faults:
        thread.stop.set()
        thread.join()
    for thread in [*faults, *workers]:
        if thread.error is not None:
            raise thread.error
    for device in range(DEVICES):
        torch.accelerator.synchronize(device)
    remaining = left()
    counts = sum((worker.counts for worker in workers), Counter[str]())
    if asked.faults and not counts["out of memory"]:
        remaining["faults that came through"] = 0
    print(
        f"stress: {counts.total()} steps on {asked.threads} threads in {time.monotonic() - started:.0f} s: "
        f"{', '.join(f'{count} {name}' for name, count in sorted(counts.items()))}; left: {remaining or 'nothing'}"
    )
    return 1 if remaining else 0


if __name__ == "__main__":
    sys.exit(main())
