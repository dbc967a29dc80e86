"""Which operators fall back, how often, with which shapes, and from which line of the program.

with watching() as fallbacks:
    model(batch).sum().backward()
report(fallbacks.calls)
"""

from __future__ import annotations

import linecache
import os
import re
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Frames of PyTorch and of this file are not the program's.
FOREIGN = (os.path.dirname(torch.__file__) + os.sep, __file__)
FRAME = re.compile(r'File "(.+)", line (\d+), in ')


# LITERALINCLUDE START: dispatcher-tools-line
def program_line() -> tuple[str, int]:
    """The file and line of the program that called the running operator.

    No line of the program calls a derivative, but anomaly mode keeps the stack of the forward with each node.
    """
    node = torch._C._current_autograd_node()
    kept: list[str] = node.metadata.get("traceback_", []) if node is not None else []
    frames = (FRAME.search(frame) for frame in reversed(kept or traceback.format_stack()))
    own = next((frame for frame in frames if frame and not frame[1].startswith(FOREIGN)), None)
    return (own[1], int(own[2])) if own else ("", 0)


# LITERALINCLUDE END: dispatcher-tools-line


@dataclass(frozen=True)
class Site:
    """One operator that fell back, called from one line with tensors of certain shapes."""

    operator: str
    shapes: str
    file: str
    line: int


# LITERALINCLUDE START: dispatcher-tools-mode
class Fallbacks(TorchDispatchMode):
    """Counts fallbacks while it is active, on all threads that work for this one."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[Site] = Counter()

    def __torch_dispatch__(
        self, operator: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs an operator, and checks whether it, or one that it called, fell back."""
        before: Counter[str] = Counter(torch.openreg.fallback_stats())
        result = operator(*args, **(kwargs or {}))
        fell_back: Counter[str] = Counter(torch.openreg.fallback_stats()) - before
        if fell_back:
            tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
            shapes = " ".join(str(list(tensor.shape)) for tensor in tensors)
            file, line = program_line()
            for name, count in fell_back.items():
                self.calls[Site(name, shapes, file, line)] += count
        return result


# LITERALINCLUDE END: dispatcher-tools-mode


@contextmanager
def watching() -> Iterator[Fallbacks]:
    """Counts the fallbacks in a block; those of derivatives count at the lines of their forward."""
    with torch.autograd.set_detect_anomaly(True, check_nan=False), Fallbacks() as fallbacks:
        yield fallbacks


def report(calls: Mapping[Site, int]) -> None:
    """Prints the lines of the program, each with what falls back there."""
    for file, line in sorted({(site.file, site.line) for site in calls}):
        print(f"{Path(file).name}:{line}: {linecache.getline(file, line).strip()}")
        for site, count in sorted(calls.items(), key=lambda item: item[0].operator):
            if (site.file, site.line) == (file, line):
                print(f"{count:6} {site.operator:26}{site.shapes}")
