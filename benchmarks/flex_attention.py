"""Measures compiled flex attention: against the CPU's template, the formula in steps, and fused attention.

Run it with `make bench`, or alone: `python benchmarks/flex_attention.py`, which writes
benchmarks/results/flex_attention.md.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

# Without processes that compile beside the measurement, and with one thread in the generated code.
os.environ |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}

import torch
from _turns import microseconds, write  # type: ignore[import-not-found]  # beside this script
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention, noop_mask
from torch.nn.functional import scaled_dot_product_attention

Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
HEADS, FEATURES, WINDOW = 4, 64, 64
LENGTHS = (128, 512, 1024)
TURNS = 20


def causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """What was before, and the query itself."""
    return query >= key


def window(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """The last positions before the query."""
    return (query >= key) & (query - key < WINDOW)


MASKS: dict[str, Mask] = {"none": noop_mask, "causal": causal, f"the last {WINDOW}": window}


def calls(mask: Mask, length: int) -> Iterator[Callable[[], Any]]:
    """The CPU compiled, the device in steps, compiled, and its fused attention with the same mask."""
    tensors = [torch.randn(1, HEADS, length, FEATURES) for _ in range(3)]
    compiled: Any = torch.compile(flex_attention, fullgraph=True, dynamic=False)
    for device, attend in (("cpu", compiled), ("openreg", flex_attention), ("openreg", compiled)):
        given = [each.to(device) for each in tensors]
        blocks = create_block_mask(mask, None, None, length, length, device=device)
        yield lambda attend=attend, given=given, blocks=blocks: attend(*given, block_mask=blocks)  # type: ignore[misc]
    at = torch.arange(length)
    seen = mask(at, at, at[:, None], at).expand(length, length).to("openreg")
    query, key, value = (each.to("openreg") for each in tensors)
    yield lambda: scaled_dot_product_attention(query, key, value, seen)


def row(name: str, length: int) -> str:
    """A line of the table."""
    torch.compiler.reset()  # the guards of other sizes would be tried first
    with torch.no_grad():
        cpu, steps, compiled, fused = (each / 1000 for each in microseconds(list(calls(MASKS[name], length)), TURNS))
    times = f"{cpu:.2f} | {steps:.2f} | {compiled:.2f} | {fused:.2f}"
    return f"| {name} | {length} | {times} | {compiled / cpu:.2f} | {compiled / steps:.2f} | {compiled / fused:.2f} |"


def main() -> None:
    """Compiles, measures, prints and writes the table."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
    table = [
        "| mask | positions | CPU compiled, ms | in steps, ms | compiled, ms | fused, ms | "
        "to CPU compiled | to steps | to fused |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        for name in MASKS:
            for length in LENGTHS:
                table.append(row(name, length))
                print(table[-1], flush=True)
    file = write(__file__, "\n".join(table))
    print(f"benchmarks/flex_attention.py: {len(table) - 2} calls, the table is in {file}")


if __name__ == "__main__":
    main()
