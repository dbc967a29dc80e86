"""Measures collectives of two ranks: tensors on the device, staged, against CPU tensors with Gloo, in turns.

Run it with `make bench`, or alone: `python benchmarks/distributed.py`. It writes benchmarks/results/distributed.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from _turns import write  # type: ignore[import-not-found]  # beside this script

sys.path.append(str(Path(__file__).resolve().parents[1]))

from examples.distributed_ranks import on_ranks

SIZES = {"4 B": 4, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "16 MiB": 16 << 20}
TURNS = 15


def _all_gather(tensor: torch.Tensor) -> None:
    dist.all_gather_single(tensor.new_empty(2 * tensor.numel()), tensor)


COLLECTIVES: dict[str, Callable[[torch.Tensor], object]] = {
    "all_reduce": dist.all_reduce,
    "broadcast": lambda tensor: dist.broadcast(tensor, src=0),
    "all_gather": _all_gather,
}


def measured() -> list[tuple[str, str, float, float]]:
    """Microseconds of each collective and size, on the CPU and staged: the 20th percentile of the turns."""
    rows = []
    for name, call in COLLECTIVES.items():
        for title, size in SIZES.items():
            tensors = [torch.zeros(size // 4), torch.zeros(size // 4, device="openreg")]
            times: list[list[float]] = [[], []]
            for _ in range(TURNS):  # the same number on both ranks
                for tensor, taken in zip(tensors, times, strict=True):
                    dist.barrier()
                    start = time.perf_counter()
                    call(tensor)
                    torch.openreg.synchronize()
                    taken.append(1e6 * (time.perf_counter() - start))
            host, staged = (sorted(taken)[TURNS // 5] for taken in times)
            rows.append((name, title, host, staged))
    return rows


def main() -> None:
    """Measures, prints and writes the table."""
    lines = ["| collective | bytes | Gloo, us | staged, us | ratio |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, title, host, staged in on_ranks(measured, backend="cpu:gloo,openreg:staged")[0]:
        lines.append(f"| `{name}` | {title} | {host:.0f} | {staged:.0f} | {staged / host:.2f} |")
        print(lines[-1])
    print(f"benchmarks/distributed.py: table in {write(__file__, chr(10).join(lines))}")


if __name__ == "__main__":
    main()
