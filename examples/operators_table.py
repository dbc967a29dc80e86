"""What runs when an operator of PyTorch is called with tensors of the device, according to the dispatcher.

    python examples/operators_table.py             how many overloads of `aten` run in which way
    python examples/operators_table.py fallback    the operators of one row

An operator is in each row that one of its overloads belongs to.
"""

from __future__ import annotations

import sys
import textwrap
from collections import defaultdict

import torch

# By the file that registers the kernel; any other file of the backend has kernels of its own.
MECHANISMS = {
    "csrc/native": "native kernel",
    "generated/csrc/structured_": "generated",
    "csrc/aten/views.cpp": "PyTorch's function",
    "csrc/aten/composed.cpp": "PyTorch's function",
    "csrc/kernels/loops/abs.cpp": "stub",
    "csrc/kernels/loops/fill.cpp": "stub",
    "csrc/kernels/loops/where.cpp": "stub",
    "csrc/aten/fallback": "fallback by name",
}
# By the mark in the dispatcher's table, if the backend registered nothing for the operator.
MARKS = {
    "[math kernel]": "composite, implicit",
    "[default backend kernel]": "composite, explicit",
    "[backend fallback]": "fallback",
}
ROWS = (
    "native kernel",
    "generated",
    "PyTorch's function",
    "stub",
    "own kernel",
    "fallback by name",
    *MARKS.values(),
    "nothing",
)


def way(operator: str) -> str:
    """How one overload runs: a name of ROWS."""
    rows = dict(line.split(": ", 1) for line in torch._C._dispatch_dump_table(operator).splitlines())
    found = rows["PrivateUse1"].removeprefix("registered at ")
    if found.endswith("[kernel]"):
        return next((name for file, name in MECHANISMS.items() if found.startswith(file)), "own kernel")
    kind = next(name for mark, name in MARKS.items() if found.endswith(mark))
    if kind == "fallback" and not torch._C._dispatch_has_computed_kernel_for_dispatch_key(operator, "CPU"):
        return "nothing"
    return kind


def table() -> dict[str, list[str]]:
    """All overloads of `aten`, without the namespace, by how they run."""
    overloads = defaultdict(list)
    for operator in sorted(torch._C._dispatch_get_all_op_names()):
        if operator.startswith("aten::"):
            overloads[way(operator)].append(operator.removeprefix("aten::"))
    return overloads


def main() -> None:
    """Prints the totals, or the operators of one row."""
    overloads = table()
    if len(sys.argv) > 1:
        names = dict.fromkeys(overload.split(".")[0] for overload in overloads[sys.argv[1]])
        print(textwrap.fill(" ".join(names), 110, break_on_hyphens=False))
        return
    for row in ROWS:
        print(f"{len(overloads[row]):5} {row}")
    print(f"{sum(map(len, overloads.values())):5} in all")


if __name__ == "__main__":
    main()
