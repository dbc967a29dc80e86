"""Random programs of several streams: whether the detector finds the first race of each, and no other.

The expected answer is found by brute force: for each operation, the set of all operations that come before it, and for
each pair of operations, the bytes that both use.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack

import torch

SCHEDULES, STEPS, BYTES = 300, 60, 48
DEVICES = [torch.device("openreg:0"), torch.device("openreg:1")]
Bytes = set[tuple[int, int]]  # a device's index, and the place in its memory


class Expected:
    """What comes before the next operation of each stream, event and of the host: the numbers of all of them."""

    def __init__(self) -> None:
        self.before: dict[object, set[int]] = {}
        self.used: list[tuple[Bytes, Bytes]] = []  # by each operation: read, written

    def of(self, one: object) -> set[int]:
        """The operations before the next one."""
        return self.before.setdefault(one, set())

    def wait(self, one: object, other: object) -> None:
        """What comes before `other`, or is queued there, comes before `one` as well."""
        self.before[one] = self.of(one) | self.of(other)

    def races(self, stream: object, read: Bytes, written: Bytes) -> bool:
        """Adds an operation. Returns whether it races with an earlier one."""
        self.wait(stream, "host")
        number = len(self.used)
        found = any(
            earlier not in self.of(stream) and (written & (old_read | old_written) or read & old_written)
            for earlier, (old_read, old_written) in enumerate(self.used)
        )
        self.used.append((read, written))
        self.of(stream).add(number)
        return found


class Schedule:
    """One random program, step by step on the device and in what is expected."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.expected = Expected()
        self.memory = [torch.zeros(BYTES, dtype=torch.uint8, device=device) for device in DEVICES]
        torch.accelerator.synchronize(0)
        torch.accelerator.synchronize(1)
        self.streams = [torch.Stream(device) for device in DEVICES for _ in range(2)]
        self.events = [torch.Event("openreg") for _ in range(3)]

    def part(self, index: int) -> tuple[torch.Tensor, Bytes]:
        """Some bytes of a device's memory, with or without gaps."""
        first, step = self.choose.randrange(BYTES - 1), self.choose.choice([1, 1, 2, 3])
        last = self.choose.randrange(first + 1, BYTES + 1)
        return self.memory[index][first:last:step], {(index, at) for at in range(first, last, step)}

    def use(self) -> bool:
        """Reads or writes a part on a stream."""
        stream = self.choose.choice(self.streams)
        tensor, used = self.part(stream.device.index)
        writes = self.choose.random() < 0.3
        expected = self.expected.races(stream, set() if writes else used, used if writes else set())
        self.run(expected, lambda: tensor.fill_(1) if writes else tensor.sum(), stream)
        return expected

    def copy(self) -> bool:
        """Copies to the other device: on the source's stream, after the destination's work and before what follows."""
        source, destination = self.choose.sample(range(2), 2)
        there, here = (self.streams[2 * index + self.choose.randrange(2)] for index in (source, destination))
        (value, read), (result, written) = self.part(source), self.part(destination)
        length = min(len(value), len(result))
        value, result = value[:length], result[:length]
        read, written = set(sorted(read)[:length]), set(sorted(written)[:length])
        self.expected.wait(there, here)
        expected = self.expected.races(there, read, written)
        self.run(expected, lambda: result.copy_(value), there, here)
        self.expected.wait(here, there)
        return expected

    def run(self, expected: bool, call: Callable[[], object], *streams: torch.Stream) -> None:
        """Calls with current streams. Raises: AssertionError, if a race is reported where none is, or not reported."""
        try:
            with ExitStack() as current:
                for stream in streams:
                    current.enter_context(stream)
                call()
        except torch.openreg.RaceError:
            assert expected, "a report where no race is"
        else:
            assert not expected, "a race without a report"

    def order(self) -> None:
        """One of the ways to order streams, events and the host."""
        one, other = self.choose.sample(self.streams, 2)
        event = self.choose.randrange(len(self.events))
        match self.choose.randrange(6):
            case 0 | 1:
                self.events[event] = one.record_event()
                self.expected.before[event] = set()
                self.expected.wait(event, "host")
                self.expected.wait(event, one)
            case 2:
                one.wait_event(self.events[event])
                self.expected.wait(one, event)
            case 3:
                one.wait_stream(other)
                self.expected.wait(one, "host")
                self.expected.wait(one, other)
            case 4:
                self.events[event].synchronize()
                self.expected.wait("host", event)
            case 5:
                device = self.choose.choice(DEVICES)
                torch.accelerator.synchronize(device)
                for stream in self.streams:
                    if stream.device == device:
                        self.expected.wait("host", stream)

    def race(self) -> bool:
        """Runs until a race, or to the end. Returns whether there was one."""
        with torch.openreg.detect_races():
            for _ in range(STEPS):
                step = self.choose.choice([self.use, self.use, self.copy, *[self.order] * 9])
                if step():
                    return True
        return False


found, wrong = 0, []
for seed in range(SCHEDULES):
    try:
        found += Schedule(seed).race()
    except AssertionError as error:
        wrong.append((seed, str(error)))
print(f"{SCHEDULES} programs, {found} with a race; wrong: {wrong}")
