"""What the allocator does when the device fails; the argument names the case."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial

import torch
from driver_memory import call, new  # type: ignore[import-not-found]  # beside this script

ALLOCATION_FAULT, KERNEL_FAULT = 0, 1
MIB = 1 << 20


def attempt(what: str, function: Callable[[], object]) -> None:
    """Makes a call, and prints the error or that there was none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            function()
            print(f"{what}: no error")
        except RuntimeError as error:
            print(f"{what}: {type(error).__name__}: {str(error).splitlines()[0]}")
    for warning in caught:
        print(f"{what}: warning: {str(warning.message).splitlines()[0]}")


def used_by(stream: torch.Stream) -> torch.Tensor:
    """A tensor for which another stream was recorded."""
    tensor = torch.ones(1000, device="openreg")
    tensor.record_stream(stream)
    return tensor


def fail_on(stream: torch.Stream) -> None:
    """Makes a kernel on the stream fail, unnoticed."""
    call("orInjectFault", KERNEL_FAULT, 0, 1)
    with stream:
        torch.empty(1000, device="openreg").abs()


# LITERALINCLUDE START: memory-failures-cases
def allocation() -> None:
    """The driver refuses repeatedly: the allocator first returns its cache, then requests no more than the block."""
    for size, refusals in ((5, 1), (5, 2), (5, 3), (12, 2)):
        cached = torch.empty(1000, device="openreg")
        del cached
        call("orInjectFault", ALLOCATION_FAULT, 0, refusals)
        attempt(
            f"{size} MiB, {refusals} refusals", partial(torch.empty, size * MIB, dtype=torch.uint8, device="openreg")
        )
        reserved, stats = torch.openreg.memory_reserved() // MIB, torch.openreg.memory_stats()
        print(f"   reserved {reserved} MiB, retries {stats['num_alloc_retries']}, failed {stats['num_ooms']}")
        torch.openreg.empty_cache()


def part() -> None:
    """The only free memory is a part of a segment, and a recorded stream still uses it: the allocator waits for it."""
    torch.openreg.set_per_process_memory_fraction(1 / 64)  # 64 MiB
    segment = torch.empty(60 * MIB, dtype=torch.uint8, device="openreg")
    del segment
    kept, freed = (torch.empty(size * MIB, dtype=torch.uint8, device="openreg") for size in (4, 50))
    side = torch.Stream("openreg")
    freed.record_stream(side)
    with side:
        torch.openreg._sleep(50_000_000)
    del freed
    attempt("50 MiB", partial(torch.empty, 50 * MIB, dtype=torch.uint8, device="openreg"))
    print("retries", torch.openreg.memory_stats()["num_alloc_retries"], "beside", kept.numel() // MIB, "MiB")


def free() -> None:
    """A recorded stream is gone, or is another device's, when the tensor is freed. The tensor is freed all the same."""
    gone = torch.openreg.get_stream_from_external(new("orStreamCreate"))
    tensors = [used_by(gone), used_by(torch.openreg.default_stream(1))]
    call("orStreamDestroy", gone.native_handle)
    tensors.clear()
    print("allocated", torch.openreg.memory_allocated())


def pending() -> None:
    """A freed block waits for a stream whose kernel fails: the next allocation that checks it raises."""
    side = torch.Stream("openreg")
    tensors = [used_by(side) for _ in range(2)]
    fail_on(side)
    tensors.clear()
    attempt("allocate", lambda: torch.empty(1000, device="openreg"))
    attempt("empty_cache", torch.openreg.empty_cache)
    print("active", torch.openreg.memory_stats()["active.all.current"])


def waiting() -> None:
    """The same when emptying the cache, which waits for the stream."""
    side = torch.Stream("openreg")
    tensor = used_by(side)
    with side:
        torch.openreg._sleep(50_000_000)
    fail_on(side)
    del tensor
    attempt("empty_cache", torch.openreg.empty_cache)


# LITERALINCLUDE END: memory-failures-cases


if __name__ == "__main__":
    {"allocation": allocation, "part": part, "free": free, "pending": pending, "waiting": waiting}[sys.argv[1]]()
