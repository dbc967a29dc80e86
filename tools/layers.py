"""Checks that the layers of csrc include only lower layers, and no header that is far wider than needed.

Code that a vendor replaces is in csrc/kernels: nothing else runs host code as if it were the device's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

LAYERS = {
    "driver": 0, "runtime": 1, "stable": 1, "graph": 2, "aten": 2, "kernels": 3, "native": 3, "profiler": 3,
    "distributed": 3, "python": 4,
}  # fmt: skip
HOST_KERNELS = "driver/openreg_host_kernels.h"
INCLUDE = re.compile(r'\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
# Each takes seconds per source; ATen/ops/<operator>.h and ATen/core/Tensor.h declare what is needed in less.
WIDE = {"ATen/ATen.h", "ATen/Functions.h", "torch/all.h", "torch/extension.h", "torch/torch.h"}
TORCH_FOLDERS = {"ATen", "c10", "torch"}


def include_fault(layer: str, included: str) -> str | None:
    """The fault of one include of a file in a layer, or None."""
    folder = Path(included).parts[0]
    if included in WIDE:
        return f"{included} is too wide: include what is used"
    if included == HOST_KERNELS and layer != "kernels":
        return f"host code stands for kernels in csrc/kernels alone: {included} does not belong here"
    if folder in TORCH_FOLDERS:
        return f"the driver knows nothing of PyTorch, not {included}" if layer == "driver" else None
    if folder in LAYERS and folder != layer and LAYERS[folder] >= LAYERS[layer]:
        return f"{layer} must not look up or sideways at {included}"
    return None


def faults(paths: Iterable[Path]) -> Iterator[str]:
    """Yields a line for each include that breaks the rules; paths begin with csrc/<layer>."""
    for path in paths:
        layer = path.parts[1]
        if layer not in LAYERS:
            yield f"{path}: {layer} is none of the layers {', '.join(LAYERS)}"
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if (match := INCLUDE.match(line)) and (fault := include_fault(layer, match.group(1) or match.group(2))):
                yield f"{path}:{number}: {fault}"
