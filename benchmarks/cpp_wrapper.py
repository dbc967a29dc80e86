"""Measures what calls the kernels of a compiled function, Python or generated C++, on the CPU and on the device.

Run it with `make bench`, or alone: `python benchmarks/cpp_wrapper.py`. It writes benchmarks/results/cpp_wrapper.md, and
uses no code that Inductor has generated before.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator

# Without processes that compile beside the measurement, and with one thread in the generated code.
os.environ |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}

import torch
from _turns import microseconds, write  # type: ignore[import-not-found]  # beside this script
from torch import Tensor

Function = Callable[[Tensor, Tensor], Tensor]
SIZES = (16, 512)
TURNS = 20


def layers(x: Tensor, y: Tensor) -> Tensor:
    """Eight products of matrices, each with a loop behind it."""
    for _ in range(8):
        x = torch.tanh(x @ y)
    return x


FUNCTIONS: dict[str, Function] = {
    "one loop": lambda x, y: torch.sigmoid(x) * y,
    "eight products, eight loops": layers,
}


def rows() -> Iterator[str]:
    """Microseconds of each function and size: on both devices, with both wrappers."""
    for name, function in FUNCTIONS.items():
        for size in SIZES:
            torch.compiler.reset()  # the guards of other sizes would be tried first
            calls: list[Callable[[], object]] = []
            for device in ("cpu", "openreg"):
                x, y = torch.randn(size, size).to(device), torch.randn(size, size).to(device)
                for cpp in (False, True):
                    compiled = torch.compile(function, fullgraph=True, dynamic=False, options={"cpp_wrapper": cpp})
                    calls.append(lambda f=compiled, x=x, y=y: f(x, y))  # type: ignore[misc]
            for call in calls:
                call()  # compiles
            times = microseconds(calls, TURNS)
            cpu_cpp, python, cpp_ = times[1:]
            columns = " | ".join(f"{each:.1f}" for each in times)
            yield f"| {name} | {size} | {columns} | {cpp_ / python:.2f} | {cpp_ / cpu_cpp:.2f} |"


def main() -> None:
    """Compiles, measures, prints and writes the table."""
    torch.set_num_threads(1)
    table = [
        "| function | rows, columns | CPU, Python, us | CPU, C++ | device, Python, us | device, C++ "
        "| C++ to Python | C++ to CPU's C++ |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        for line in rows():
            table.append(line)
            print(line, flush=True)
    file = write(__file__, "\n".join(table))
    print(f"benchmarks/cpp_wrapper.py: {len(table) - 2} rows, table in {file}")


if __name__ == "__main__":
    main()
