"""Plants faults in `abs` of the device, and shows which mode of the operator database detects which.

    python examples/opinfo_faults.py                        a table: each fault, each mode
    python examples/opinfo_faults.py overflow --verbose     the tests of opinfo_first.py, with one fault planted

The options after the fault are those of unittest.
"""

from __future__ import annotations

import sys
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))
import opinfo_first  # type: ignore[import-not-found]  # beside this script

from tests.opinfo.compare import Comparison
from tests.opinfo.exceptions import MODES

warnings.filterwarnings("ignore", "Warning only once for all operators")  # overriding is what this script is for

Kernel = Callable[[torch.Tensor], torch.Tensor]
(ABS,) = (entry for entry in opinfo_first.OPERATORS if entry.name == "abs")


# LITERALINCLUDE START: opinfo-faults-planted
def right(x: torch.Tensor) -> torch.Tensor:
    """The absolute value, computed by the CPU."""
    return x.cpu().abs().to(x.device)


def strides(x: torch.Tensor) -> torch.Tensor:
    """Reads the right number of elements contiguously, and ignores the strides."""
    return right(torch.as_strided(x, x.shape, torch.empty(x.shape, device="meta").stride()))


def overflow(x: torch.Tensor) -> torch.Tensor:
    """The textbook formula for complex numbers: the squares of large parts are infinite."""
    return (x.real * x.real + x.imag * x.imag).sqrt() if x.is_complex() else right(x)


def zeros(x: torch.Tensor) -> torch.Tensor:
    """The textbook formula for real numbers: -0.0 is not less than 0, and stays -0.0."""
    return right(x) if x.is_complex() else torch.where(x < 0, -x, x)


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Integers by way of float32, which cannot represent the odd ones above 2**24."""
    return right(x.float()).to(x.dtype) if x.dtype is torch.int64 else right(x)


def elsewhere(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Gives `out` new memory instead of writing to its own."""
    out.set_(right(x))
    return out


def plant(fault: Kernel | None) -> torch.library.Library:
    """Makes a function the kernel of abs on the device, for as long as the library lives."""

    def kernel(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        return elsewhere(x, out) if fault is None else out.resize_(x.shape).copy_(fault(x))

    library = torch.library.Library("aten", "IMPL")
    library.impl("abs.out", kernel, "PrivateUse1", allow_override=True)
    return library


# LITERALINCLUDE END: opinfo-faults-planted


# LITERALINCLUDE START: opinfo-faults-table
def red(mode: str) -> int:
    """How many units of abs fail in a mode, of three dtypes."""
    supported = ABS.supported_backward_dtypes if mode == "backward" else ABS.supported_dtypes
    failed = 0
    for dtype in set(opinfo_first.DTYPES) & set(supported("openreg")):
        try:
            getattr(Comparison(ABS, "openreg", dtype), mode)()
        except Exception:
            failed += 1
    return failed


def table() -> None:
    """Prints a row for each fault: the failing units of each mode, and the absolute values of two numbers."""
    edges = torch.tensor(-0.0, device="openreg"), torch.tensor(2**24 + 1, device="openreg")
    print(f"{'':10}", *(f"{mode:>13}" for mode in MODES), *(f"{edge.item():>8}" for edge in edges))
    for name, fault in FAULTS.items():
        library = plant(fault)
        values = (f"{edge.abs().item():>8}" for edge in edges)
        print(f"{name:10}", *(f"{red(mode) or '.':>13}" for mode in MODES), *values)
        library._destroy()


# LITERALINCLUDE END: opinfo-faults-table

FAULTS: dict[str, Kernel | None] = {
    "right": right,
    "strides": strides,
    "overflow": overflow,
    "elsewhere": None,
    "zeros": zeros,
    "rounded": rounded,
}


def main() -> None:
    """Prints the table, or runs unittest with one fault planted."""
    if len(sys.argv) == 1:
        table()
        return
    library = plant(FAULTS[sys.argv[1]])
    unittest.main(opinfo_first, argv=sys.argv[:1] + sys.argv[2:], exit=False)
    library._destroy()


if __name__ == "__main__":
    main()
