"""A fallback that is registered for the autograd key too, so that its result is detached from its inputs."""

import torch

from tests.conformance.broken.kernels import kernel


@kernel("logcumsumexp", "AutogradPrivateUse1")
def logcumsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.logcumsumexp(x.detach().cpu(), dim).to(x.device)
