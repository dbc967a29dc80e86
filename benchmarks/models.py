"""Models trained on the device and on the CPU: how far apart they end, what falls back, what a step takes.

Run it with `make models`, or alone: `python benchmarks/models.py`. It writes benchmarks/results/models.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import transformers
from _turns import microseconds, write  # type: ignore[import-not-found]  # beside this script

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))

import results
from environment import ROOT

from tests.models.language import LANGUAGE_MODELS
from tests.models.networks import NETWORKS
from tests.models.training import Subject, Training, largest_difference, pair


def fallbacks(training: Training) -> str:
    """What falls back in one step, and how often."""
    torch.openreg.reset_fallback_stats()
    training.step()
    return ", ".join(f"`{name}` {count}" for name, count in torch.openreg.fallback_stats().items()) or "none"


def rows(name: str, subject: Subject) -> tuple[str, str]:
    """A line of the table of numbers, and one of the table of costs.

    The costs are measured as PyTorch is by default, with backward on a thread of the device, and on the calling thread.
    """
    expected, training = pair(subject)
    on_cpu, on_device = expected.losses(), training.losses()
    difference, _ = largest_difference(training.model, expected.model)
    fell_back = fallbacks(training)
    cpu, device = (time / 1000 for time in microseconds((expected.step, training.step)))
    with torch.autograd.set_multithreading_enabled(False):
        alone = microseconds((expected.step, training.step))
    numbers = f"| {name} | {on_cpu[0]:.6f} | {on_cpu[-1]:.6f} | {on_device[-1]:.6f} | {difference:.0e} |"
    return (
        numbers,
        f"| {name} | {cpu:.2f} | {device:.2f} | {device / cpu:.2f} | {alone[1] / alone[0]:.2f} | {fell_back} |",
    )


def main() -> None:
    """Trains, measures, prints and writes the tables."""
    torch.set_num_threads(1)
    numbers = ["| model | first loss | last, CPU | last, device | difference |", "| --- | ---: | ---: | ---: | ---: |"]
    costs = [
        "| model | CPU, ms | device, ms | ratio | ratio, calling thread | fallbacks in a step |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, subject in (NETWORKS | LANGUAGE_MODELS).items():
        for table, line in zip((numbers, costs), rows(name, subject), strict=True):
            table.append(line)
            print(line, flush=True)
    package = f"The language models are those of transformers {transformers.__version__}."
    file = write(__file__, "\n\n".join((package, "\n".join(numbers), "\n".join(costs))))
    results.MODELS.note(ROOT)
    print(f"benchmarks/models.py: {len(numbers) - 2} models, tables in {file}")


if __name__ == "__main__":
    main()
