"""The order in which graphs that share a pool may be replayed."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# LITERALINCLUDE START: graphed-order
Pool = tuple[int, int]
# What stands for one call of make_graphed_callables(), and the place of a callable in it.
Place = tuple[object, int]


class Order:
    """Which calls can still be followed by their backward pass, among all callables with one pool.

    A replay overwrites what its own last call has saved, and may overwrite what graphs captured later have saved:
    memory that was free at the end of a capture belongs to the captures after it in the same pool. Callables of another
    `make_graphed_callables()` are captured after all graphs of the first, so each overwrites what the other has saved.
    """

    def __init__(self) -> None:
        self._open: dict[Place, int] = {}
        self._calls = 0
        self._last: torch.Event | None = None

    @contextmanager
    def turn(self, stream: torch.Stream) -> Iterator[None]:
        """Lets the block's work on the stream wait for earlier work in this memory, which may be on another stream."""
        if self._last is not None:
            stream.wait_event(self._last)
        try:
            yield
        finally:
            # Not wait_stream() at the next turn: by then, a graph of the program may capture this stream.
            self._last = stream.record_event()

    def forward(self, at: Place) -> int:
        """Notes a replay of the forward pass, and returns the number of the call."""
        self._overwrite(at)
        self._calls += 1
        self._open[at] = self._calls
        return self._calls

    def backward(self, at: Place, call: int, name: str) -> None:
        """Notes the replay of a call's backward pass. The name is for the error.

        Raises:
            RuntimeError: if what the call has saved was overwritten.
        """
        if self._open.get(at) != call:
            raise RuntimeError(
                f"openreg: the backward pass of {name} comes too late, or a second time: another replay has "
                f"overwritten what the forward pass saved. Call backward() once, before {name} or a callable that was "
                "captured before it is called again, or make another graphed callable for the other call. Callables of "
                "several make_graphed_callables() with one pool overwrite each other's: make them in one call"
            )
        self._overwrite(at)

    def _overwrite(self, first: Place) -> None:
        self._open = {at: call for at, call in self._open.items() if at[0] is first[0] and at[1] < first[1]}


_orders: weakref.WeakValueDictionary[Pool, Order] = weakref.WeakValueDictionary()


def order_of(pool: Pool) -> Order:
    """The order of the callables with a pool, as long as there are any."""
    return _orders.setdefault(pool, Order())


# LITERALINCLUDE END: graphed-order
