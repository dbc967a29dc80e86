"""The order that a program with several streams needs: a stream waits for the last stream that used the same memory."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tests.fuzz.program import Statement, key

# Long enough that a missing wait shows.
_SLEEP = "torch.openreg._sleep(200_000)"


class Ordering:
    """The synchronization around the lines of a program on the device.

    Every use counts as a write: a reader waits for the last reader, too. The order comes from the storages that the
    CPU's tensors share, so a program that has lost some of its lines still has the waits that it needs.
    """

    def __init__(self) -> None:
        self._created: dict[int, int] = {}  # by storage, the stream that it was allocated for
        self._last: dict[int, int] = {}
        self._streams: set[int] = set()

    def before(self, statement: Statement, known: Mapping[str, torch.Tensor]) -> list[str]:
        """The lines that make the stream of a statement wait, and create the stream if it is new."""
        lines = []
        if statement.stream and not self._streams:
            lines.append("s0 = torch.openreg.current_stream(d0)")
            self._streams.add(0)
        if statement.stream not in self._streams and statement.stream:
            lines.append(f"s{statement.stream} = torch.Stream(d0)")
            self._streams.add(statement.stream)
        others = {self._last.get(key(known[name]), 0) for name in statement.names if name in known}
        for other in sorted(others - {statement.stream}):
            wait = "wait_stream({})" if other % 2 else "wait_event({}.record_event())"
            lines.append(f"s{statement.stream}.{wait.format(f's{other}')}")
        if statement.stream:
            lines.append(f"with s{statement.stream}: {_SLEEP}")
        return lines

    def after(self, statement: Statement, known: Mapping[str, torch.Tensor]) -> list[str]:
        """The record_stream calls for memory that was allocated on another stream."""
        lines = []
        for name in statement.names:
            if name not in known:
                continue
            storage = key(known[name])
            if name in statement.bound and storage not in self._last:
                self._created[storage] = statement.stream
            if self._created.setdefault(storage, 0) != statement.stream:
                lines.append(f"{name}.record_stream(s{statement.stream})")
            self._last[storage] = statement.stream
        return lines

    def forget(self, storages: set[int]) -> None:
        """Forgets storages that no longer exist: a new one may get their address."""
        for storage in storages:
            self._created.pop(storage, None)
            self._last.pop(storage, None)
