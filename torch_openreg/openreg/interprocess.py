"""Events that order the streams of several processes."""

from __future__ import annotations

import torch

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init
from torch_openreg.openreg._utils import _resolved


# LITERALINCLUDE START: event-of-processes
class InterprocessEvent:
    """A point in the work of a stream for which streams of other processes can wait.

    Send it through a queue or a pipe of `torch.multiprocessing`. Either process may record it; a wait refers to the
    last record, whichever process made it. `torch.Event` cannot be shared: PyTorch has no interface for that yet.

    Args:
        device: the device whose streams record it (default: the current device).

    Raises:
        NotImplementedError: if the driver cannot share events.
    """

    def __init__(self, device: torch.device | int | str | None = None) -> None:
        self._event = _C._InterprocessEvent(_resolved(device))

    @classmethod
    def from_ipc_handle(cls, device: torch.device | int | str, handle: bytes) -> InterprocessEvent:
        """Opens the event of another process, which must keep it until then."""
        _lazy_init()
        event = cls.__new__(cls)
        event._event = _C._InterprocessEvent(_resolved(device), handle)
        return event

    def ipc_handle(self) -> bytes:
        """The bytes with which another process opens the event."""
        return self._event.ipc_handle()

    @property
    def device(self) -> torch.device:
        """The device of the event."""
        return self._event.device

    def record(self, stream: torch.Stream | None = None) -> None:
        """Records the event behind the work queued on the stream (default: the current stream of the device)."""
        self._event._record(_C._current_stream(self.device.index) if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Makes the stream (default: the current stream of the device) wait for the last record, and not the host."""
        self._event._block(_C._current_stream(self.device.index) if stream is None else stream)

    def query(self) -> bool:
        """Whether the last record has passed; true if there is none."""
        return self._event.query()

    def synchronize(self) -> None:
        """Waits on the host for the last record.

        Raises:
            RuntimeError: if the process that made it has ended before the record passed.
        """
        self._event.synchronize()


# LITERALINCLUDE END: event-of-processes
