"""Measures compiled functions and compiled training on the device, against eager and against the CPU's own Inductor.

Run it with `make bench`, or alone: `python benchmarks/compile.py`. It writes benchmarks/results/compile.md, and uses no
code that Inductor has generated before. Names of models as arguments limit it to those, and write nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

# Without processes that compile beside the measurement, and with one thread in the generated code.
os.environ |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}

import torch
from _turns import microseconds, write  # type: ignore[import-not-found]  # beside this script
from torch import Tensor
from torch.nn import functional

sys.path.append(str(Path(__file__).resolve().parents[1]))

from tests.models.language import LANGUAGE_MODELS
from tests.models.networks import NETWORKS
from tests.models.training import STEPS, Subject, Training, largest_difference, pair

Function = Callable[[Tensor, Tensor], Tensor]
TURNS = 20


def chain(x: Tensor, y: Tensor) -> Tensor:
    """Eight operators on elements."""
    return torch.sigmoid(x) * y + torch.tanh(y) * 0.5 - x.clamp(-1, 1)


FUNCTIONS: dict[str, Function] = {
    "eight operators on elements": chain,
    "sum of a product": lambda x, y: (x * y).sum(),
    "softmax of a sum": lambda x, y: torch.softmax(x + y, -1),
    "layer norm of a sum": lambda x, y: functional.layer_norm(x + y, (x.shape[-1],)),
    "GELU of a product of matrices": lambda x, y: functional.gelu(x @ y),
}
SIZES = (16, 256, 1024)


def function_rows() -> Iterator[str]:
    """Microseconds of each function and size: on both devices, eager and compiled."""
    for name, function in FUNCTIONS.items():
        for size in SIZES:
            torch.compiler.reset()  # the guards of other sizes would be tried first
            calls: list[Callable[[], object]] = []
            for device in ("cpu", "openreg"):
                x, y = torch.randn(size, size).to(device), torch.randn(size, size).to(device)
                compiled = torch.compile(function, fullgraph=True, dynamic=False)
                calls += [lambda f=f, x=x, y=y: f(x, y) for f in (function, compiled)]  # type: ignore[misc]
            for call in calls:
                call()  # compiles
            # The CPU's eager time is no part of a ratio, but of the same turns.
            cpu, cpu_compiled, eager, compiled_ = microseconds(calls, TURNS)
            times = f"{cpu:.1f} | {cpu_compiled:.1f} | {eager:.1f} | {compiled_:.1f}"
            yield f"| {name} | {size} | {times} | {compiled_ / cpu_compiled:.2f} | {compiled_ / eager:.2f} |"


def compiled_losses(training: Training) -> tuple[list[float], float, str]:
    """The losses of all steps of the compiled model, the seconds of the first one, Dynamo's graphs and breaks."""
    counters = torch._dynamo.utils.counters
    counters.clear()
    training.subject = replace(training.subject, loss=torch.compile(training.subject.loss))
    start = time.perf_counter()
    first = training.step().item()
    seconds = time.perf_counter() - start
    losses = [first, *(training.step().item() for _ in range(STEPS - 1))]
    return losses, seconds, f"{counters['stats']['unique_graphs']} | {sum(counters['graph_break'].values())}"


def model_rows(name: str, subject: Subject) -> tuple[str, str]:
    """A line of the table of numbers, and one of the table of costs."""
    torch.compiler.reset()
    _, eager = pair(subject)
    expected, training = pair(subject)
    on_cpu, _, _ = compiled_losses(expected)
    on_device, seconds, graphs = compiled_losses(training)
    difference, _ = largest_difference(training.model, expected.model)
    torch.openreg.reset_fallback_stats()
    training.step()
    fallbacks = ", ".join(f"`{each}` {count}" for each, count in torch.openreg.fallback_stats().items()) or "none"
    steps = (expected.step, eager.step, training.step)
    cpu, device, compiled = (each / 1000 for each in microseconds(steps, TURNS))
    numbers = f"| {name} | {on_cpu[-1]:.6f} | {on_device[-1]:.6f} | {difference:.0e} | {graphs} | {fallbacks} |"
    times = f"{seconds:.1f} | {cpu:.2f} | {device:.2f} | {compiled:.2f}"
    return numbers, f"| {name} | {times} | {compiled / cpu:.2f} | {compiled / device:.2f} |"


def main() -> None:
    """Compiles, trains, measures, prints and writes the tables."""
    torch.set_num_threads(1)
    # Of each language model the one with fused attention: each takes a minute to compile.
    models = NETWORKS | {name: subject for name, subject in LANGUAGE_MODELS.items() if name.endswith(", sdpa")}
    wanted = sys.argv[1:] or list(models)
    functions = [
        "| function | rows, columns | CPU, us | CPU compiled | eager, us | compiled, us | to CPU compiled | to eager |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    numbers = [
        "| compiled model | last loss, CPU | last loss, device | difference | graphs | breaks | fallbacks in a step |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    costs = [
        "| compiled model | first step, s | CPU compiled, ms | eager, ms | compiled, ms | to CPU compiled | to eager |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        for line in () if sys.argv[1:] else function_rows():
            functions.append(line)
            print(line, flush=True)
        for name in wanted:
            for table, line in zip((numbers, costs), model_rows(name, models[name]), strict=True):
                table.append(line)
                print(line, flush=True)
    if sys.argv[1:]:
        print(f"benchmarks/compile.py: {len(wanted)} models; no table is written for some of them")
        return
    file = write(__file__, "\n\n".join("\n".join(table) for table in (functions, numbers, costs)))
    print(f"benchmarks/compile.py: {len(FUNCTIONS)} functions and {len(wanted)} models, tables in {file}")


if __name__ == "__main__":
    main()
