"""What the driver reports when the host lacks resources; the argument names the limit of this process to lower."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from driver_memory import DEFAULT, call, mapping, new, room  # type: ignore[import-not-found]  # beside this script


@contextmanager
def limited(limit: int, value: int) -> Iterator[None]:
    """Sets a limit of the process inside a block."""
    before = resource.getrlimit(limit)
    resource.setrlimit(limit, (value, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(limit, before)


# LITERALINCLUDE START: driver-limits-addresses
def addresses() -> None:
    """Too little address space to start. Nothing is left half started: with more, the next call succeeds."""
    with limited(resource.RLIMIT_AS, 2 << 30):
        call("orDeviceSynchronize")
    call("orDeviceSynchronize")
    print("started:", room())


# LITERALINCLUDE END: driver-limits-addresses


# LITERALINCLUDE START: driver-limits-pages
def pages() -> None:
    """Too little memory for another segment."""
    pointer = new("orMalloc", 1000)
    with limited(resource.RLIMIT_DATA, 1 << 20):
        new("orMalloc", 40 << 20)
    alias = new("orGetHostAlias", pointer, 1)
    print("writable:", mapping(alias), "free:", room()[0])
    new("orMalloc", 40 << 20)
    print("writable:", mapping(alias), "free:", room()[0])


# LITERALINCLUDE END: driver-limits-pages


# LITERALINCLUDE START: driver-limits-threads
def threads() -> None:
    """No room for the stack of a stream's thread."""
    pointer, pinned = new("orMalloc", 8), new("orMallocHost", 8)
    with limited(resource.RLIMIT_AS, 1 << 20):
        call("orMemset", pointer, 7, 8)
        call("orMemcpyAsync", pinned, pointer, 8, DEFAULT, None)
    call("orMemset", pointer, 7, 8)


# LITERALINCLUDE END: driver-limits-threads


if __name__ == "__main__":
    {"addresses": addresses, "pages": pages, "threads": threads}[sys.argv[1]]()
