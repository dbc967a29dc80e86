"""Measures the cost of one fallback and its parts: to the host, the CPU's kernel, and back to the device.

Run it with `make bench`, or alone: `python benchmarks/fallback.py`. It writes benchmarks/results/fallback.md.
"""

from __future__ import annotations

import torch
from _turns import microseconds, write  # type: ignore[import-not-found]  # beside this script

KIB = 1 << 10
SIZES = {"16": 16, "16k": 16 * KIB, "1M": KIB * KIB, "16M": 16 * KIB * KIB}


def row(name: str, size: int) -> str:
    """One line of the table, for a tensor of ``size`` elements."""
    host = torch.randn(size)
    device = host.to("openreg")
    torch.openreg.reset_fallback_stats()
    torch.angle(device)
    assert torch.openreg.fallback_stats() == {"aten::angle": 1}
    whole, copy_in, compute, copy_out = microseconds(
        (lambda: torch.angle(device), device.cpu, lambda: torch.angle(host), lambda: host.to("openreg"))
    )
    times = " | ".join(f"{time:.1f}" for time in (whole, copy_in, compute, copy_out))
    return f"| {name} | {times} | {whole / compute:.2f} |"


def main() -> None:
    """Measures, prints and writes the table."""
    torch.set_num_threads(1)
    lines = [
        "| elements | fallback, us | to the host, us | CPU's kernel, us | to the device, us | ratio to the kernel |"
    ]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, size in SIZES.items():
        lines.append(row(name, size))
        print(lines[-1], flush=True)
    table = "\n".join(lines)
    print(f"benchmarks/fallback.py: table in {write(__file__, table)}")


if __name__ == "__main__":
    main()
