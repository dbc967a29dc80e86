"""Measures graphs: a replay against the launches that it replaces, and a training step against eager mode and the CPU.

Compiled graphs are measured with and without the mode "reduce-overhead", which replays them.

Run it with `make bench`, or alone: `python benchmarks/graph.py`. It writes benchmarks/results/graph.md.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator

# Without processes that compile beside the measurement, and with one thread in the generated code.
os.environ |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}

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


def compiled_rows() -> Iterator[str]:
    """Microseconds of 36 small layers, and of a training step of them: eager, compiled, and compiled and replayed."""
    torch.manual_seed(0)
    block = [kind() for _ in range(12) for kind in (lambda: nn.Linear(16, 16), lambda: nn.LayerNorm(16), nn.GELU)]
    model = nn.Sequential(*block).to("openreg")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(8, 16, device="openreg")
    variants = [model, torch.compile(model), torch.compile(model, mode="reduce-overhead")]

    def train(variant: nn.Module) -> None:
        optimizer.zero_grad(set_to_none=True)
        variant(batch).sum().backward()
        optimizer.step()

    def infer(variant: nn.Module) -> None:
        with torch.no_grad():
            variant(batch)

    for name, work in (("an inference of 36 small layers", infer), ("a training step of them", train)):
        calls: list[Call] = [lambda variant=variant, work=work: work(variant) for variant in variants]
        for call in calls * 10:  # compiles, and captures
            call()
        eager, compiled, replayed = microseconds(calls)
        yield f"| {name} | {eager:.1f} | {compiled:.1f} | {replayed:.1f} | {replayed / compiled:.2f} |"


def main() -> None:
    """Measures, prints and writes the tables."""
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
    lines += ["", note, "", "| compiled work | eager, us | compiled, us | replayed, us | replayed / compiled |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        for line in compiled_rows():
            lines.append(line)
            print(line)
    print(f"benchmarks/graph.py: tables in {write(__file__, chr(10).join(lines))}")


if __name__ == "__main__":
    main()
