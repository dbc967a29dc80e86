"""Compares native kernels with the CPU fallback on the same device, and with PyTorch on the CPU, in one run.

    python benchmarks/native_kernels.py              sizes for a quick look
    python benchmarks/native_kernels.py --large      sizes that keep a GPU busy

The cases take turns, so that a slowdown of the machine affects all of them. A time is that of a call including the wait
for its result: the smallest of several rounds. The fallback runs the CPU's kernel, with the copies to the host and
back.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from functools import partial

os.environ["OPENREG_NATIVE_KERNELS"] = "on"  # read during the import

import torch

Call = Callable[[], torch.Tensor]
SMALL = {"elements": 1 << 20, "matrix": 512}
LARGE = {"elements": 1 << 26, "matrix": 4096}


def seconds(call: Call, repeat: int, wait: Callable[[], None]) -> float:
    """The time per call when several are queued together."""
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    wait()
    return (time.perf_counter() - start) / repeat


def cases(elements: int, matrix: int) -> dict[str, tuple[Callable[..., torch.Tensor], list[torch.Tensor]]]:
    """Operators and their arguments on the CPU."""
    x, y = torch.randn(elements), torch.randn(elements)
    side = math.isqrt(elements)
    square = x[: side * side].view(side, side)
    a, b = torch.randn(matrix, matrix), torch.randn(matrix, matrix)
    return {
        "abs": (torch.abs, [x]),
        "abs of a transposed view": (lambda s: s.t().abs(), [square]),
        "add": (torch.add, [x, y]),
        "add, broadcast": (lambda s: s + s[0], [square]),
        "mul, bfloat16": (torch.mul, [x.bfloat16(), y.bfloat16()]),
        "sum": (torch.sum, [x]),
        "sum of columns": (lambda s: s.sum(0), [square]),
        "mm": (torch.mm, [a, b]),
    }


def through_the_cpu(function: Callable[..., torch.Tensor], arguments: list[torch.Tensor]) -> Call:
    """The work of the fallback: copy to the host, compute, copy back."""
    return lambda: function(*(argument.cpu() for argument in arguments)).to("openreg")


def main() -> None:
    """Prints a table of milliseconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="sizes that keep a GPU busy")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    properties = torch.openreg.get_device_properties()
    print(
        f"{properties.name}, driver {properties.driver}, {properties.multi_processor_count} compute units; "
        f"CPU with {torch.get_num_threads()} threads; PyTorch {torch.__version__}"
    )
    print(f"{'':26}{'native ms':>10}{'fallback ms':>13}{'CPU ms':>9}{'fallback/native':>17}{'CPU/native':>12}")
    for name, (function, on_cpu) in cases(**(LARGE if arguments.large else SMALL)).items():
        here = [argument.to("openreg") for argument in on_cpu]
        torch.testing.assert_close(function(*here).cpu(), function(*on_cpu), rtol=1e-3, atol=1e-2)
        ways: list[tuple[Call, Callable[[], None]]] = [
            (partial(function, *here), torch.openreg.synchronize),
            (through_the_cpu(function, here), torch.openreg.synchronize),
            (partial(function, *on_cpu), lambda: None),
        ]
        times = [math.inf] * len(ways)
        for _ in range(arguments.rounds):
            for i, (call, wait) in enumerate(ways):
                times[i] = min(times[i], seconds(call, 5, wait))
        native, fallback, cpu = (1e3 * t for t in times)
        print(f"{name:26}{native:10.3f}{fallback:13.3f}{cpu:9.3f}{fallback / native:17.2f}{cpu / native:12.2f}")


if __name__ == "__main__":
    main()
