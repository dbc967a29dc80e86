"""Errors of functions that a backend does not override: of events, and of an operator, which the minimum includes."""

import torch

from tests.conformance.broken.kernels import kernel


@kernel("logcumsumexp")
def logcumsumexp(_x: torch.Tensor, _dim: int) -> torch.Tensor:
    raise RuntimeError("Backend doesn't support logcumsumexp.")


class Event(torch.Event):
    def __new__(cls, *_arguments: object, **_options: object) -> "Event":
        raise RuntimeError("Backend doesn't support events.")


torch.Event = Event  # type: ignore[misc]
