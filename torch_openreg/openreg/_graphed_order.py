"""The order in which graphs that share a pool may be replayed."""

from __future__ import annotations


# LITERALINCLUDE START: graphed-order
class Order:
    """Which calls can still be followed by their backward pass.

    A replay overwrites what its own last call has saved, and may overwrite what graphs captured later have saved:
    memory that was free at the end of a capture belongs to the captures after it in the same pool.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._open: dict[int, int] = {}
        self._calls = 0

    def add(self, name: str) -> int:
        """The place of a callable in the order."""
        self._names.append(name)
        return len(self._names) - 1

    def forward(self, at: int) -> int:
        """Notes a replay of the forward pass, and returns the number of the call."""
        self._overwrite(at)
        self._calls += 1
        self._open[at] = self._calls
        return self._calls

    def backward(self, at: int, call: int) -> None:
        """Notes the replay of a call's backward pass.

        Raises:
            RuntimeError: if what the call has saved was overwritten.
        """
        if self._open.get(at) != call:
            name = self._names[at]
            raise RuntimeError(
                f"openreg: the backward pass of {name} comes too late, or a second time: another replay has "
                f"overwritten what the forward pass saved. Call backward() once, before {name} or a callable that was "
                "captured before it is called again, or make another graphed callable for the other call"
            )
        self._overwrite(at)

    def _overwrite(self, first: int) -> None:
        self._open = {at: call for at, call in self._open.items() if at < first}


# LITERALINCLUDE END: graphed-order
