"""Which operations come before which: vector clocks of streams, of events, and of the host."""

from __future__ import annotations

from collections.abc import Callable

# LITERALINCLUDE START: races-clock
# For each stream, the number of the last of its operations that comes before. A stream's own entry is its latest one.
Clock = dict[int, int]


def _join(clock: Clock, other: Clock) -> None:
    """Puts all that comes before `other` before `clock`, too."""
    for stream, number in other.items():
        clock[stream] = max(clock.get(stream, 0), number)


# LITERALINCLUDE END: races-clock


# LITERALINCLUDE START: races-order
class Order:
    """What a program has ordered so far. Streams and events are their handles."""

    def __init__(self, device_of: Callable[[int], int]) -> None:
        self._device_of = device_of
        self._streams: dict[int, Clock] = {}
        self._events: dict[int, Clock] = {}
        self._host: Clock = {}
        self._latest = 0

    def _clock(self, stream: int) -> Clock:
        """The clock of a stream for work that the host queues now: it comes after all that the host has waited for."""
        clock = self._streams.setdefault(stream, {})
        _join(clock, self._host)
        return clock

    def operation(self, stream: int) -> int:
        """Queues an operation and returns its number, which no other operation has."""
        self._latest += 1
        self._clock(stream)[stream] = self._latest
        return self._latest

    def is_before(self, stream: int, number: int, later: int | None) -> bool:
        """Whether an operation of `stream` comes before the work queued on `later` now, or before the host for None."""
        clock = self._host if later is None else self._clock(later)
        return number <= clock.get(stream, 0)

    def record(self, event: int, stream: int) -> None:
        """The event passes when all that the stream has, or waits for, is done."""
        self._events[event] = dict(self._clock(stream))

    def wait(self, event: int, stream: int) -> None:
        """The later work of the stream comes after the event. One that was never recorded is none."""
        _join(self._clock(stream), self._events.get(event, {}))

    def stream_waits(self, stream: int, other: int) -> None:
        """As an event that is recorded on `other` and waited for by `stream`."""
        _join(self._clock(stream), self._clock(other))

    def host_waits_for_event(self, event: int) -> None:
        """The host goes on after the event."""
        _join(self._host, self._events.get(event, {}))

    def host_waits_for_stream(self, stream: int) -> None:
        """The host goes on after the stream's work."""
        _join(self._host, self._clock(stream))

    def host_waits_for_device(self, device: int) -> None:
        """The host goes on after all streams of the device."""
        for stream in list(self._streams):
            if self._device_of(stream) == device:
                self.host_waits_for_stream(stream)

    def streams(self) -> set[int]:
        """All streams that anything was queued on, or that were ordered."""
        return set(self._streams)

    def forget_event(self, event: int) -> None:
        """Whoever waits for the event does so all the same; its handle may become another event's."""
        self._events.pop(event, None)


# LITERALINCLUDE END: races-order
