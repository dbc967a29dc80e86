"""Runs units of the operator database in a process that may crash or hang, which costs one unit and names it.

    python examples/opinfo_isolated.py

As a demonstration, four of the five operators are broken on purpose (`spoil`).
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ENTRIES = ["abs", "tan", "cos", "sin", "exp"]
SECONDS = 4.0


# LITERALINCLUDE START: opinfo-isolated-parent
def outcomes(entries: list[str]) -> Iterator[tuple[str, str]]:
    """Yields how each entry ended. A worker answers in order, so if it ends early, it ended in the next entry."""
    waiting = list(entries)
    while waiting:
        with tempfile.TemporaryFile("w+") as errors:
            command = [sys.executable, __file__, *waiting]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as worker:
                answers = iter(worker.stdout or ())
                is_ready = next(answers, "") == "ready\n"
                for answer in answers:
                    yield waiting.pop(0), answer.rstrip()
            errors.seek(0)
            if not is_ready:
                raise RuntimeError(f"a worker does not start: {errors.read().splitlines()[-1]}")
            if worker.returncode:
                yield waiting.pop(0), f"{ended(worker.returncode)}: {said(errors.read())}"


def ended(status: int) -> str:
    """The end of a process, in words."""
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def said(errors: str) -> str:
    """The first line that a worker wrote as it died, and the innermost Python function that it was in."""
    innermost = re.search(r'File ".*/(.*)", line \d+ in (.*)', errors)
    place = f"in {innermost[2]}, {innermost[1]}" if innermost else "in no known place"
    return f"{errors.partition(chr(10))[0]} ({place})"


# LITERALINCLUDE END: opinfo-isolated-parent


# LITERALINCLUDE START: opinfo-isolated-worker
def work(entries: list[str]) -> None:
    """Runs entries and answers with a line for each, until the device is unusable."""
    faulthandler.enable()
    import opinfo_first  # type: ignore[import-not-found]  # beside this script; here, since the parent needs no torch
    import torch

    sys.path.append(str(Path(__file__).parents[1]))
    from tests.opinfo.compare import Comparison

    by_name = {entry.full_name: entry for entry in opinfo_first.op_db}
    libraries = spoil(torch)
    print("ready", flush=True)
    for name in entries:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            Comparison(by_name[name], "openreg", torch.float32).forward()
            torch.accelerator.synchronize()  # a kernel that fails late fails here
            answer = "passed"
        except Exception as error:
            answer = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        faulthandler.cancel_dump_traceback_later()
        print(answer, flush=True)
        if answer.startswith(torch.AcceleratorError.__name__):
            break  # whatever came next would fail too
    del libraries
    sys.stdout.flush()
    os._exit(0)  # a crash at the interpreter's exit would be blamed on a unit that has not run


# LITERALINCLUDE END: opinfo-isolated-worker


def spoil(torch: Any) -> list[Any]:
    """Registers kernels that are wrong, fail, crash and hang."""
    driver = ctypes.CDLL("libopenreg.so")  # the one that the backend has loaded
    kernel_fault, hang_fault = 1, 2  # orFault_t of openreg_faults.h

    def with_fault(fault: int) -> Callable[..., Any]:
        def kernel(x: Any) -> Any:
            error = driver.orInjectFault(fault, 0, 1)
            assert error == 0
            return torch.ones_like(x)

        return kernel

    def wrong(x: Any) -> Any:
        return torch.ones_like(x)

    def crashing(x: Any) -> Any:
        ctypes.string_at(x.data_ptr(), 4)  # an address of the device, read by the host
        return x

    warnings.filterwarnings("ignore", "Warning only once for all operators")  # about overriding a kernel
    libraries = []
    for operator, kernel in {
        "tan": wrong,
        "cos": with_fault(kernel_fault),
        "sin": crashing,
        "exp": with_fault(hang_fault),
    }.items():
        library = torch.library.Library("aten", "IMPL")
        library.impl(operator, kernel, "PrivateUse1", allow_override=True)
        libraries.append(library)
    return libraries


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1:])
    else:
        for unit, outcome in outcomes(ENTRIES):
            print(f"{unit}: {outcome}")
