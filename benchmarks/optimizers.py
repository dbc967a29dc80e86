"""Measures the cost of an optimizer step, implemented in three ways, next to CPU PyTorch.

Run it with `make bench`, or alone: `python benchmarks/optimizers.py`. It writes benchmarks/results/optimizers.md.
"""

from __future__ import annotations

from typing import Any

import torch
from _turns import microseconds, write  # type: ignore[import-not-found]  # beside this script

MODELS = {"50 of 64": (50, 64), "4 of 1M": (4, 1 << 20)}
WAYS: dict[str, dict[str, Any]] = {"loop": {"foreach": False}, "lists": {"foreach": True}, "fused": {"fused": True}}


def optimizer(device: str, count: int, size: int, **options: Any) -> torch.optim.Optimizer:
    """AdamW for ``count`` parameters of one size, with gradients."""
    parameters = [torch.nn.Parameter(torch.ones(size, device=device)) for _ in range(count)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    return torch.optim.AdamW(parameters, lr=1e-3, **options)


def main() -> None:
    """Measures, prints and writes the table."""
    torch.set_num_threads(1)
    torch.openreg.set_fallback_policy("error")
    lines = ["| parameters | way | CPU, us | device, us | ratio |", "| --- | --- | ---: | ---: | ---: |"]
    for model, (count, size) in MODELS.items():
        for way, options in WAYS.items():
            steps = [optimizer(device, count, size, **options).step for device in ("cpu", "openreg")]
            cpu, device = microseconds(steps)
            lines.append(f"| {model} | {way} | {cpu:.1f} | {device:.1f} | {device / cpu:.2f} |")
            print(lines[-1], flush=True)
    table = "\n".join(lines)
    print(f"benchmarks/optimizers.py: table in {write(__file__, table)}")


if __name__ == "__main__":
    main()
