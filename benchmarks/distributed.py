"""Measures collectives of two ranks: tensors on the device, staged and direct, against CPU tensors with Gloo, in turns.

Run it with `make bench`, or alone: `python benchmarks/distributed.py`. It writes benchmarks/results/distributed.md.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from _turns import write  # type: ignore[import-not-found]  # beside this script

sys.path.append(str(Path(__file__).resolve().parents[1]))

from examples.distributed_ranks import on_ranks

SIZES = {"4 B": 4, "64 KiB": 64 << 10, "256 KiB": 256 << 10, "1 MiB": 1 << 20, "16 MiB": 16 << 20}
TURNS = 15


def _all_gather(tensor: torch.Tensor, group: dist.ProcessGroup | None) -> None:
    dist.all_gather_single(tensor.new_empty(2 * tensor.numel()), tensor, group=group)


def _reduce_scatter(tensor: torch.Tensor, group: dist.ProcessGroup | None) -> None:
    dist.reduce_scatter_single(tensor.new_empty(tensor.numel() // 2), tensor, group=group)


def _gather(tensor: torch.Tensor, group: dist.ProcessGroup | None) -> None:
    outputs = [torch.empty_like(tensor) for _ in range(2)] if dist.get_rank() == 0 else None
    dist.gather(tensor, outputs, dst=0, group=group)


def _scatter(tensor: torch.Tensor, group: dist.ProcessGroup | None) -> None:
    inputs = [tensor, tensor] if dist.get_rank() == 0 else None
    dist.scatter(torch.empty_like(tensor), inputs, src=0, group=group)


COLLECTIVES: dict[str, Callable[[torch.Tensor, dist.ProcessGroup | None], object]] = {
    "all_reduce": lambda tensor, group: dist.all_reduce(tensor, group=group),
    "broadcast": lambda tensor, group: dist.broadcast(tensor, src=0, group=group),
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "reduce": lambda tensor, group: dist.reduce(tensor, dst=0, group=group),
    "gather": _gather,
    "scatter": _scatter,
    "all_to_all": lambda tensor, group: dist.all_to_all_single(torch.empty_like(tensor), tensor, group=group),
}
# Ranks know the sizes of their own tensors alone, and so choose no way by them.
ALWAYS_DIRECT = "all_to_all"


def measured() -> list[tuple[str, str, list[float]]]:
    """Microseconds of each collective and size, with Gloo, staged and direct: the 20th percentile of the turns."""
    torch.set_num_threads(1)
    os.environ["OPENREG_COLLECTIVES"] = "staged"
    staged = dist.new_group()
    del os.environ["OPENREG_COLLECTIVES"]
    rows = []
    for name, call in COLLECTIVES.items():
        for title, size in SIZES.items():
            if name in ("reduce_scatter", "all_to_all") and size < 8:
                continue
            on_device = torch.zeros(size // 4, device="openreg")
            runs = [(torch.zeros(size // 4), None), (on_device, staged), (on_device, None)]
            times: list[list[float]] = [[], [], []]
            for _ in range(TURNS):  # the same number on both ranks
                for (tensor, group), taken in zip(runs, times, strict=True):
                    dist.barrier()
                    start = time.perf_counter()
                    call(tensor, group)
                    torch.openreg.synchronize()
                    taken.append(1e6 * (time.perf_counter() - start))
            rows.append((name, title, [sorted(taken)[TURNS // 5] for taken in times]))
    return rows


def main() -> None:
    """Measures, prints and writes the table."""
    lines = [
        "| collective | bytes | Gloo, us | staged, us | ratio | direct, us | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, title, (host, staged, direct) in on_ranks(measured, backend="cpu:gloo,openreg:staged", seconds=100)[0]:
        is_direct = name == ALWAYS_DIRECT or SIZES[title] >= SIZES["256 KiB"]
        direct_columns = f"{direct:.0f} | {direct / host:.2f}" if is_direct else "as staged |"
        lines.append(f"| `{name}` | {title} | {host:.0f} | {staged:.0f} | {staged / host:.2f} | {direct_columns} |")
        print(lines[-1])
    print(f"benchmarks/distributed.py: table in {write(__file__, chr(10).join(lines))}")


if __name__ == "__main__":
    main()
