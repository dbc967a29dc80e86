"""Statistics that cannot be reset, a host cache that cannot be emptied, and lazy clones that are aliases."""

import torch

from tests.conformance.broken.kernels import kernel


@kernel("_lazy_clone")
def lazy_clone(x: torch.Tensor) -> torch.Tensor:
    alias: torch.Tensor = torch.ops.aten.alias(x)
    return alias


def refuse() -> None:
    raise RuntimeError("no such cache")


torch._C._accelerator_resetAccumulatedStats = lambda device_index: None
torch._C._accelerator_emptyHostCache = refuse
