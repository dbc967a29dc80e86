"""Addresses of the devices' memory: numbers that are given out once, and mean nothing to the host's processor."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque

import torch

COUNT = int(os.environ.get("TORCH_REMOTE_DEVICES", "2"))
MAXIMUM = 16  # devices; csrc/guard.cpp has a current stream for so many
if not 0 < COUNT <= MAXIMUM:
    raise ValueError(f"remote: TORCH_REMOTE_DEVICES is from 1 to {MAXIMUM}, got {COUNT}")
LIMIT = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes of a device: what the machine has


# LITERALINCLUDE START: remote-addresses
_Watch = weakref.KeyedRef[int, torch.UntypedStorage]
_freed: deque[int | _Watch] = deque()
_watches: dict[int, _Watch] = {}
_lock = threading.Lock()
# Takes memory back. Called while the last tensor dies, wherever that is, so it waits for no lock. And it is C: Ctrl-C
# comes between two lines of Python; in a destructor it would be lost, and the memory with it.
free = _freed.append


def free_with(storage: torch.UntypedStorage, address: int) -> None:
    """Takes memory back when an object dies. ``weakref.finalize`` would go through lines of Python."""
    _watches[address] = weakref.KeyedRef(storage, free, address)


def settle() -> None:
    """Counts what has been freed. An address leaves the list last, so whoever is interrupted loses none."""
    with _lock:
        while _freed:
            first = _freed[0]
            address = first.key if isinstance(first, weakref.KeyedRef) else first
            memory = memories[device_of(address)]
            memory.untold.add(address)
            memory.used -= memory.sizes.pop(address, 0)
            _watches.pop(address, None)
            _freed.popleft()


class Memory:
    """The addresses of one device.

    They begin with 0x40 and the index, then come 56 bits: no processor of today takes such a number for an address, so
    host code that follows one faults at once, and in a dump one sees whose it is.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.next = 0x40 + index << 56
        self.lost = 0  # what lies below was lost in a reset
        self.used = 0
        self.sizes: dict[int, int] = {}
        self.untold: set[int] = set()  # freed, and the device does not know

    def malloc(self, nbytes: int) -> int:
        """Returns the address of so many bytes. Throws: ``torch.OutOfMemoryError``."""
        if self.used + nbytes > LIMIT:
            settle()
        with _lock:
            if self.used + nbytes > LIMIT:
                raise torch.OutOfMemoryError(
                    f"remote:{self.index} has no room for {nbytes} bytes: {self.used} of {LIMIT} are in use; "
                    "free tensors that are not needed"
                )
            address = self.next
            self.next += max(-(-nbytes // 512), 1) * 512
            self.sizes[address] = nbytes
            self.used += nbytes
            return address


memories = [Memory(index) for index in range(COUNT)]


def device_of(address: int) -> int:
    """The index of the device whose memory it is. Throws: ``ValueError``."""
    index = (address >> 56) - 0x40
    if not 0 <= index < COUNT:
        raise ValueError(f"remote: {address:#x} is no address of a device")
    return index


# LITERALINCLUDE END: remote-addresses
