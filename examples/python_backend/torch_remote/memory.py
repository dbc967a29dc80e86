"""Addresses of the devices' memory: numbers that are never reused and that the host's processor cannot access."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque

import torch

COUNT = int(os.environ.get("TORCH_REMOTE_DEVICES", "2"))
MAXIMUM = 16  # devices; csrc/guard.cpp keeps a current stream for each
if not 0 < COUNT <= MAXIMUM:
    raise ValueError(f"remote: TORCH_REMOTE_DEVICES is from 1 to {MAXIMUM}, got {COUNT}")
LIMIT = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes of a device: what the machine has


# LITERALINCLUDE START: remote-addresses
_Watch = weakref.KeyedRef[int, torch.UntypedStorage]
_freed: deque[int | _Watch] = deque()
_watches: dict[int, _Watch] = {}
# A signal handler may allocate in the middle of an allocation: it must not wait for its own thread.
_lock = threading.RLock()
_settling = False
# Frees memory. It is called when the last tensor dies, anywhere, so it must not wait for a lock. And it is C: Ctrl-C
# arrives between two lines of Python; in a destructor it would be lost, and the memory with it.
free = _freed.append


def free_with(storage: torch.UntypedStorage, address: int) -> None:
    """Frees memory when a storage dies. ``weakref.finalize`` would execute lines of Python."""
    _watches[address] = weakref.KeyedRef(storage, free, address)


def settle() -> None:
    """Accounts for freed memory. An address leaves the list last, so an interrupt loses none."""
    global _settling
    with _lock:
        if _settling:
            return  # NOT PROVEN: in a signal handler; what it interrupted goes on with the list
        _settling = True
        try:
            while _freed:
                first = _freed[0]
                address = first.key if isinstance(first, weakref.KeyedRef) else first
                memory = memories[device_of(address)]
                memory.untold.add(address)
                nbytes = memory.sizes.pop(address, 0)
                memory.used -= nbytes
                _watches.pop(address, None)
                _freed.popleft()
        finally:
            _settling = False


class Memory:
    """The addresses of one device.

    They begin with 0x40 plus the index, followed by 56 bits. x86-64 processors reject such an address, so host code
    that dereferences one faults at once, and a dump shows whose it is. (Arm ignores the highest byte: there, give bit
    55 the value 1, too.)
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.next = 0x40 + index << 56
        self.lost = 0  # memory below this was lost in a reset
        self.used = 0
        self.sizes: dict[int, int] = {}
        self.untold: set[int] = set()  # freed, but the device does not know yet

    def malloc(self, nbytes: int) -> int:
        """Allocates bytes and returns their address. Throws: ``torch.OutOfMemoryError``."""
        if self.used + nbytes > LIMIT:
            settle()
        reach = max(-(-nbytes // 512), 1) * 512
        with _lock:
            if self.used + nbytes > LIMIT:
                raise torch.OutOfMemoryError(
                    f"remote:{self.index} has no room for {nbytes} bytes: {self.used} of {LIMIT} are in use; "
                    "free tensors that are not needed"
                )
            # No call in these lines: Python runs signal handlers at calls, and one may take an address, too.
            address = self.next
            self.next = address + reach
            self.sizes[address] = nbytes
            self.used += nbytes
            return address


memories = [Memory(index) for index in range(COUNT)]
# A thread that is not in a forked child must not hold the lock there, nor have changed half of what it guards.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def device_of(address: int) -> int:
    """The index of the device that an address belongs to. Throws: ``ValueError``."""
    index = (address >> 56) - 0x40
    if not 0 <= index < COUNT:
        raise ValueError(f"remote: {address:#x} is no address of a device")
    return index


# LITERALINCLUDE END: remote-addresses
