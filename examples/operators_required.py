"""One call for each operator that a backend has to register; prints the operator and the outcome of its call.

Delete the registration of one of them (csrc/aten/), build again, and run this to see what it was for. Each call runs in
a process of its own, since it crashes without some of them.
"""

from __future__ import annotations

import copy
import os
import signal
import sys
from collections.abc import Callable

import torch


# LITERALINCLUDE START: operators-required-calls
def counting(*shape: int) -> torch.Tensor:
    """The numbers 0, 1, 2 ... on the device."""
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape).to("openreg")


def zeroed_through_another_name(tensor: torch.Tensor) -> torch.Tensor:
    """Makes a second tensor an alias of the first one's memory, and writes through it."""
    torch.ops.aten.set_.source_Tensor(tensor.new_empty(()), tensor).zero_()
    return tensor


CALLS: dict[str, Callable[[], object]] = {
    "empty.memory_format": lambda: torch.empty(2, 3, device="openreg").shape,
    "empty_strided": lambda: torch.arange(3.0).to("openreg").tolist(),
    "as_strided": lambda: counting(2, 3).t()[1].tolist(),
    "view": lambda: counting(2, 3).view(3, 2).tolist(),
    "_reshape_alias": lambda: counting(2, 3, 4)[:, 0].reshape(2, 2, 2).tolist(),
    "resize_": lambda: counting(4).resize_(2, 2).tolist(),
    "_copy_from": lambda: counting(3).cpu().tolist(),
    "_copy_from_and_resize": lambda: torch.ops.aten._copy_from_and_resize(counting(3), torch.empty(())).tolist(),
    "_local_scalar_dense": lambda: counting(3)[-1].item(),
    "set_.source_Tensor": lambda: zeroed_through_another_name(counting(3)).tolist(),
    "set_.source_Storage": lambda: torch.empty((), device="openreg").set_(counting(3).untyped_storage()).tolist(),
    "set_.source_Storage_storage_offset": lambda: copy.deepcopy(counting(3)).tolist(),
    "fallback": lambda: torch.histc(counting(3), 2).tolist(),
}
# LITERALINCLUDE END: operators-required-calls


def report(name: str) -> None:
    """Makes the call for one operator, and prints what it returned, or the first line of the error."""
    try:
        result = CALLS[name]()
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
    else:
        # Not every backend counts what falls back.
        round_trip = f"aten::{name}" in getattr(torch.openreg, "fallback_stats", dict)()
        print(f"{name}: {result}" + (" (by a round trip through the CPU)" if round_trip else ""))


def in_a_process_of_its_own(name: str) -> None:
    """Reports from a fork. The device has not been used yet, so each child may use it."""
    child = os.fork()
    if child == 0:
        report(name)
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        print(f"{name}: the process is killed by {signal.Signals(os.WTERMSIG(status)).name}", flush=True)


if __name__ == "__main__":
    for name in CALLS:
        in_a_process_of_its_own(name)
