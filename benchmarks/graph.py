"""Measures graphs: a replay against the launches that it replaces, and a training step against eager mode and the CPU.

Run it with `make bench`, or alone: `python benchmarks/graph.py`. It writes benchmarks/results/graph.md.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from _turns import Call, microseconds, write  # type: ignore[import-not-found]  # beside this script
from torch import nn

KERNELS = 100


def captured(call: Call) -> torch.accelerator.Graph:
    """A graph of the call's work, after a first call that creates what later ones reuse."""
    graph = torch.accelerator.Graph()
    with torch.Stream():
        call()
        torch.accelerator.synchronize()
        with graph:
            call()
    return graph


def small_kernels(device: str, elements: int) -> Call:
    """100 additions to one tensor."""
    x = torch.zeros(elements, device=device)

    def call() -> None:
        for _ in range(KERNELS):
            x.add_(1)

    return call


def training_step(device: str) -> Call:
    """Forward, backward and SGD of a small network."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batch, target = torch.randn(16, 64).to(device), torch.randn(16, 8).to(device)

    def call() -> None:
        optimizer.zero_grad(set_to_none=True)
        nn.functional.mse_loss(model(batch), target).backward()
        optimizer.step()

    return call


def main() -> None:
    """Measures, prints and writes the table."""
    torch.set_num_threads(1)
    works: dict[str, Callable[[str], Call]] = {
        "100 additions to 1 element": lambda device: small_kernels(device, 1),
        "100 additions to 1,000 elements": lambda device: small_kernels(device, 1000),
        "100 additions to 100,000 elements": lambda device: small_kernels(device, 100_000),
        "a training step of 3 small layers": training_step,
    }
    lines = [
        "| work | CPU, us | eager, us | replay, us | replay / eager | replay / CPU |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, work in works.items():
        call = work("openreg")
        cpu, eager, replay = microseconds([work("cpu"), call, captured(call).replay])
        lines.append(f"| {name} | {cpu:.1f} | {eager:.1f} | {replay:.1f} | {replay / eager:.2f} | {replay / cpu:.2f} |")
        print(lines[-1])
    one = torch.zeros(1, device="openreg")
    empty, launch = microseconds([captured(lambda: one.add_(1)).replay, lambda: one.add_(1)])
    note = f"The replay of a graph of one addition takes {empty:.2f} us; launching that addition, {launch:.2f} us."
    print(note)
    print(f"benchmarks/graph.py: table in {write(__file__, chr(10).join([*lines, '', note]))}")


if __name__ == "__main__":
    main()
