"""The functions that C++ calls: memory, streams and events. Each one takes the place of a driver function."""

from __future__ import annotations

import itertools

from . import memory
from .base import base
from .devices import devices
from .memory import device_of, free

__all__ = ["device_of", "free"]

# Again and again the same 32, as other backends do, since each is a thread of the device. 0 is its default stream.
_streams = itertools.cycle(range(1, 33))


# LITERALINCLUDE START: remote-answers-memory
def device_count() -> int:
    """How many devices there are."""
    return memory.COUNT


def is_started(index: int) -> bool:
    """Whether a device has been started."""
    return 0 <= index < memory.COUNT and devices[index].process is not None


def malloc(nbytes: int, index: int) -> int:
    """Allocates memory and returns its address."""
    return memory.memories[index].malloc(nbytes)


def copy_bytes(to: int, source: int, nbytes: int) -> None:
    """Copies within a device, in the order of the current stream. Throws: ``ValueError`` for two devices."""
    if device_of(to) != device_of(source):
        raise ValueError(
            f"remote: {source:#x} and {to:#x} are on two devices; copy tensors, which go by way of the host"
        )
    devices[device_of(to)].launch_on(base().current_stream(device_of(to)), "move", to, source, nbytes)


# LITERALINCLUDE END: remote-answers-memory


def synchronize(index: int) -> None:
    """Waits until a device has nothing left to do."""
    device = devices[base().current_device() if index < 0 else index]
    if device.process is not None:
        device.ask("synchronize")


# LITERALINCLUDE START: remote-answers-streams
def new_stream() -> int:
    """Returns an unused stream number. The device creates the stream when it first gets work."""
    return next(_streams)


def query_stream(index: int, stream: int) -> bool:
    """Whether a stream has nothing left to do."""
    return devices[index].process is None or bool(devices[index].ask("query_stream", stream).value)


def synchronize_stream(index: int, stream: int) -> None:
    """Waits until a stream has nothing left to do."""
    if devices[index].process is not None:
        devices[index].ask("synchronize_stream", stream)


def record_event(event: int, index: int, stream: int) -> int:
    """Records an event on a stream. Returns the event's name: the address of an empty allocation."""
    if event and device_of(event) != index:
        free(event)
        event = 0
    event = event or malloc(0, index)
    devices[index].launch("record", stream, event)
    return event


def wait_event(event: int, index: int, stream: int) -> None:
    """Makes a stream wait for an event; for another device's event the host waits, as devices cannot communicate."""
    if device_of(event) == index:
        devices[index].launch("wait", stream, event)
    else:
        synchronize_event(event)


def query_event(event: int) -> bool:
    """Whether an event has passed."""
    return bool(devices[device_of(event)].ask("query_event", event).value)


def synchronize_event(event: int) -> None:
    """Waits until an event has passed."""
    devices[device_of(event)].ask("synchronize_event", event)


def elapsed_time(start: int, end: int) -> float:
    """Milliseconds between two events of a device. Throws: ``ValueError`` for other events."""
    if 0 in (start, end) or device_of(start) != device_of(end):
        raise ValueError(
            "remote: a time is between two events that were recorded on one device with enable_timing=True"
        )
    return float(devices[device_of(start)].ask("elapsed_time", start, end).value)


# LITERALINCLUDE END: remote-answers-streams
