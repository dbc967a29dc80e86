"""Measures the cost of one call on the device, as a ratio to the same call on the CPU in the same run.

Run it with `make bench`, or alone: `python benchmarks/operators.py`. It writes benchmarks/results/operators.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from _turns import microseconds, write  # type: ignore[import-not-found]  # beside this script

MIB = 1 << 20
ON_ONE_PROCESSOR = "training step, all threads on one processor"


@dataclass
class Row:
    """One line of the table: microseconds per call."""

    name: str
    cpu: float
    device: float
    fell_back: bool


def measure(name: str, make_call: Callable[[str], Callable[[], object]]) -> Row:
    """Times the call that make_call returns, on both devices."""
    cpu, device = make_call("cpu"), make_call("openreg")
    device()
    torch.openreg.reset_fallback_stats()
    device()
    fell_back = bool(torch.openreg.fallback_stats())
    on_cpu, on_device = microseconds((cpu, device))
    return Row(name, on_cpu, on_device, fell_back)


@contextmanager
def one_processor() -> Iterator[None]:
    """Keeps all threads of the process on one processor: a thread that wakes another need not wait for an idle one."""
    everywhere = os.sched_getaffinity(0)

    def move(processors: set[int]) -> None:
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), processors)

    move({min(everywhere)})
    try:
        yield
    finally:
        move(everywhere)


def network(device: str) -> torch.nn.Module:
    """A network of two linear layers."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    return torch.nn.Sequential(*layers).to(device)


def forward_pass(device: str) -> Callable[[], object]:
    """The forward pass of the network for 32 samples, without autograd."""
    model, x = network(device), torch.randn(32, 64).to(device)
    return torch.no_grad()(lambda: model(x))


def recurrent_step(device: str) -> Callable[[], object]:
    """One time step of an LSTM for 32 samples, without autograd."""
    cell, x = torch.nn.LSTMCell(64, 64).to(device), torch.randn(32, 64).to(device)
    return torch.no_grad()(lambda: cell(x))


def recurrent_sequence(device: str) -> Callable[[], object]:
    """One LSTM layer for 16 steps of 32 samples, without autograd."""
    layer, x = torch.nn.LSTM(64, 64).to(device), torch.randn(16, 32, 64).to(device)
    return torch.no_grad()(lambda: layer(x))


def attention(x: torch.Tensor) -> torch.Tensor:
    """Self-attention."""
    return torch.nn.functional.scaled_dot_product_attention(x, x, x)


def dropped_attention(x: torch.Tensor) -> torch.Tensor:
    """The same, without a tenth of its weights: the CPU composes it of ordinary operators."""
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1)


def training_step(device: str) -> Callable[[], object]:
    """A training step with 32 samples: forward, cross entropy, backward, SGD with momentum."""
    model = network(device)
    x, y = torch.randn(32, 64).to(device), torch.randint(10, (32,)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def on_calling_thread(device: str) -> Callable[[], object]:
    """The same step, without the thread on which PyTorch runs a device's backward."""
    step = training_step(device)

    def call() -> None:
        with torch.autograd.set_multithreading_enabled(False):
            step()

    return call


def calls() -> dict[str, Callable[[str], Callable[[], object]]]:
    """The calls, by name. Each creates its tensors once, for one device."""

    def on(
        shape: tuple[int, ...], call: Callable[[torch.Tensor], object], dtype: torch.dtype = torch.float32
    ) -> Callable[[str], Callable[[], object]]:
        def make(device: str) -> Callable[[], object]:
            x = torch.randn(shape).to(device, dtype)
            return lambda: call(x)

        return make

    def to_device(size: int) -> Callable[[str], Callable[[], object]]:
        def make(device: str) -> Callable[[], object]:
            source, target = torch.randn(size), torch.empty(size, device=device)
            return lambda: target.copy_(source)

        return make

    return {
        "empty(16)": lambda device: lambda: torch.empty(16, device=device),
        "empty(1M)": lambda device: lambda: torch.empty(MIB, device=device),
        "view": on((16,), lambda x: x.view(4, 4)),
        "abs(16)": on((16,), torch.abs),
        "abs(16k)": on((16384,), torch.abs),
        "abs(1M)": on((MIB,), torch.abs),
        "abs(1M), transposed": on((1024, 1024), lambda x: x.t().abs()),
        "openreg::custom_abs(16)": on((16,), torch.ops.openreg.custom_abs),
        "x + x (16)": on((16,), lambda x: x + x),
        "x + x (1M)": on((MIB,), lambda x: x + x),
        "x + 1 (16)": on((16,), lambda x: x + 1),
        "x.add_(1) (1M)": on((MIB,), lambda x: x.add_(1)),
        "x.half() + x (16k)": on((16384,), lambda x: x.half() + x),
        "where(x > 0, x, 0) (1M)": on((MIB,), lambda x: torch.where(x > 0, x, 0)),
        "exp(16)": on((16,), torch.exp),
        "exp(1M)": on((MIB,), torch.exp),
        "sum(16)": on((16,), torch.sum),
        "sum(1M)": on((MIB,), torch.sum),
        "sum(1024, 1024) of columns": on((1024, 1024), lambda x: x.sum(0)),
        "softmax(16, 16)": on((16, 16), lambda x: x.softmax(1)),
        "mm(16, 16)": on((16, 16), lambda x: x @ x),
        "mm(256, 256)": on((256, 256), lambda x: x @ x),
        "angle(16)": on((16,), torch.angle),
        "angle(1M)": on((MIB,), torch.angle),
        "x + x (16k), half": on((16384,), lambda x: x + x, torch.half),
        "mean(16k)": on((16384,), torch.mean),
        "mean(1024, 1024) of columns": on((1024, 1024), lambda x: x.mean(0)),
        "amax(1M)": on((MIB,), torch.amax),
        "amax(1M), bfloat16": on((MIB,), torch.amax, torch.bfloat16),
        "uniform_ (1M)": on((MIB,), lambda x: x.uniform_()),
        "normal_ (16)": on((16,), lambda x: x.normal_()),
        "normal_ (1M)": on((MIB,), lambda x: x.normal_()),
        "dropout (1M)": on((MIB,), lambda x: torch.nn.functional.dropout(x, 0.1)),
        "random_(100) (1M)": on((MIB,), lambda x: x.random_(100)),
        "attention of 4 heads of (128, 64)": on((2, 4, 128, 64), attention),
        "attention with dropout": on((2, 4, 128, 64), dropped_attention),
        "LSTM of 16 steps of (32, 64)": recurrent_sequence,
        "LSTM cell of (32, 64)": recurrent_step,
        "forward of a small network": forward_pass,
        "training step of a small network": training_step,
        "the same, backward on the calling thread": on_calling_thread,
        ON_ONE_PROCESSOR: training_step,
        "x[0].item()": on((16,), lambda x: x[0].item()),
        "clone(16)": on((16,), torch.clone),
        "clone(16M)": on((16 * MIB,), torch.clone),
        "copy_ from a transposed tensor (1M)": on((1024, 1024), lambda x: x.t().contiguous()),
        "copy_ from the host (16)": to_device(16),
        "copy_ from the host (16M)": to_device(16 * MIB),
    }


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| call | CPU, us | device, us | ratio | |", "| --- | ---: | ---: | ---: | --- |"]
    for row in rows:
        note = "falls back" if row.fell_back else ""
        lines.append(f"| {row.name} | {row.cpu:.2f} | {row.device:.2f} | {row.device / row.cpu:.2f} | {note} |")
    return "\n".join(lines)


def main() -> None:
    """Measures, prints and writes the table."""
    torch.set_num_threads(1)
    rows = []
    for name, make_call in calls().items():
        with one_processor() if name == ON_ONE_PROCESSOR else nullcontext():
            rows.append(measure(name, make_call))
        print(f"{name}: {rows[-1].device / rows[-1].cpu:.2f}", flush=True)
    print(f"benchmarks/operators.py: {len(rows)} calls, table in {write(__file__, table(rows))}")


if __name__ == "__main__":
    main()
