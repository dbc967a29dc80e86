"""Measures graphs: a replay against the launches that it replaces, and a training step against eager mode and the CPU.

Compiled graphs are measured with and without the mode "reduce-overhead", which replays them, and a module as a graphed
callable against the same module without graphs.

Run it with `make bench`, or alone: `python benchmarks/graph.py`. It writes benchmarks/results/graph.md.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

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


def small_layers() -> nn.Sequential:
    """36 layers, most of whose time is launches."""
    torch.manual_seed(0)
    block = [kind() for _ in range(12) for kind in (lambda: nn.Linear(16, 16), lambda: nn.LayerNorm(16), nn.GELU)]
    return nn.Sequential(*block).to("openreg")


def training_and_inference(variants: Sequence[Any]) -> Iterator[tuple[str, list[float]]]:
    """Microseconds of each variant: an inference, and a training step."""
    batch = torch.randn(8, 16, device="openreg")
    optimizers = [torch.optim.SGD(variant.parameters(), lr=1e-3) for variant in variants]

    def train(variant: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad(set_to_none=True)
        variant(batch).sum().backward()
        optimizer.step()

    def infer(variant: nn.Module, _: torch.optim.Optimizer) -> None:
        with torch.no_grad():
            variant(batch)

    for name, work in (("an inference of 36 small layers", infer), ("a training step of them", train)):
        calls: list[Call] = [partial(work, *each) for each in zip(variants, optimizers, strict=True)]
        for call in calls * 10:  # compiles, and captures
            call()
        yield name, microseconds(calls)


def compiled_rows() -> Iterator[str]:
    """36 small layers: eager, compiled, and compiled and replayed."""
    model = small_layers()
    variants = [model, torch.compile(model), torch.compile(model, mode="reduce-overhead")]
    for name, (eager, compiled, replayed) in training_and_inference(variants):
        yield f"| {name} | {eager:.1f} | {compiled:.1f} | {replayed:.1f} | {replayed / compiled:.2f} |"


def callable_rows() -> Iterator[str]:
    """36 small layers: eager, and as one graphed callable."""
    model = small_layers()
    graphed = torch.openreg.make_graphed_callables(copy.deepcopy(model), (torch.zeros(8, 16, device="openreg"),))
    for name, (eager, replayed) in training_and_inference([model, graphed]):
        yield f"| {name} | {eager:.1f} | {replayed:.1f} | {replayed / eager:.2f} |"


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
    lines += [
        "",
        note,
        "",
        "| graphed callable | eager, us | replayed, us | replayed / eager |",
        "| --- | ---: | ---: | ---: |",
    ]
    for line in callable_rows():
        lines.append(line)
        print(line)
    lines += ["", "| compiled work | eager, us | compiled, us | replayed, us | replayed / compiled |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        for line in compiled_rows():
            lines.append(line)
            print(line)
    print(f"benchmarks/graph.py: tables in {write(__file__, chr(10).join(lines))}")


if __name__ == "__main__":
    main()
