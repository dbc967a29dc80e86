"""The happens-before order of operations: vector clocks of streams, of events, and of the host."""

from __future__ import annotations

from collections.abc import Callable

# LITERALINCLUDE START: races-clock
# For each stream, the number of its last operation that comes before. A stream's entry for itself is its latest one.
Clock = dict[int, int]


def _join(clock: Clock, other: Clock) -> None:
    """Orders everything that comes before `other` before `clock` as well."""
    for stream, number in other.items():
        clock[stream] = max(clock.get(stream, 0), number)


# LITERALINCLUDE END: races-clock


# LITERALINCLUDE START: races-order
class Order:
    """The order that a program has established so far. Streams and events are given by their handles."""

    def __init__(self, device_of: Callable[[int], int | None]) -> None:
        self._device_of = device_of
        self._streams: dict[int, Clock] = {}
        self._events: dict[int, Clock] = {}
        self._host: Clock = {}
        self._latest = 0

    def _clock(self, stream: int) -> Clock:
        """The clock of work queued on a stream now: it comes after everything that the host has waited for."""
        clock = self._streams.setdefault(stream, {})
        _join(clock, self._host)
        return clock

    def operation(self, stream: int) -> int:
        """Records an operation on a stream and returns its unique number."""
        self._latest += 1
        self._clock(stream)[stream] = self._latest
        return self._latest

    def is_before(self, stream: int, number: int, later: int | None) -> bool:
        """Whether an operation of `stream` comes before work queued on `later` now; None means the host."""
        clock = self._host if later is None else self._clock(later)
        return number <= clock.get(stream, 0)

    def record(self, event: int, stream: int) -> None:
        """The event completes after all work of the stream, including what the stream waits for."""
        self._events[event] = dict(self._clock(stream))

    def wait(self, event: int, stream: int) -> None:
        """Later work of the stream comes after the event. An event that was never recorded orders nothing."""
        _join(self._clock(stream), self._events.get(event, {}))

    def stream_waits(self, stream: int, other: int) -> None:
        """Like an event that is recorded on `other` and waited for by `stream`."""
        _join(self._clock(stream), self._clock(other))

    def host_waits_for_event(self, event: int) -> None:
        """The host continues after the event."""
        _join(self._host, self._events.get(event, {}))

    def host_waits_for_stream(self, stream: int) -> None:
        """The host continues after the stream's work."""
        _join(self._host, self._clock(stream))

    def host_waits_for_device(self, device: int | None) -> None:
        """The host continues after all streams of the device. None: after those that have been destroyed."""
        for stream in list(self._streams):
            if self._device_of(stream) == device:
                self.host_waits_for_stream(stream)

    def streams(self) -> set[int]:
        """All streams that have had work queued on them or have taken part in synchronization."""
        return set(self._streams)

    def forget_event(self, event: int) -> None:
        """Forgets a destroyed event, whose handle may be reused. Waits that are already queued stay in effect."""
        self._events.pop(event, None)


# LITERALINCLUDE END: races-order
