"""A fallback that takes an operator at autograd's key too, so that its result knows nothing of its inputs."""

import torch

from tests.conformance.broken.kernels import kernel


@kernel("logcumsumexp", "AutogradPrivateUse1")
def logcumsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.logcumsumexp(x.detach().cpu(), dim).to(x.device)
