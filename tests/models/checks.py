"""The checks that each model must pass."""

from __future__ import annotations

import pytest
import torch

from tests.models.training import Subject, largest_difference, mixed_precision_losses, pair

HALVES = [torch.bfloat16, torch.float16]


def training_is_that_of_the_cpu(subject: Subject, bound: float = 1e-5) -> None:
    """Each loss, parameter and buffer differs by at most `bound`, relative to itself or the tensor's largest number."""
    expected, training = pair(subject)
    theirs, ours = expected.losses(), training.losses()
    assert ours[-1] < ours[0]
    assert ours == pytest.approx(theirs, rel=bound)
    difference, name = largest_difference(training.model, expected.model)
    assert difference <= bound, name


def nothing_falls_back(subject: Subject) -> None:
    """Neither in the first step, which makes the optimizer's state, nor in the second."""
    _, training = pair(subject)
    torch.openreg.reset_fallback_stats()
    training.step()
    training.step()
    assert torch.openreg.fallback_stats() == {}


def mixed_precision_stays_near_float32(subject: Subject, dtype: torch.dtype) -> None:
    """Losses differ from those in float32 on the CPU by at most a hundredth of the first."""
    expected, training = pair(subject)
    theirs, ours = expected.losses(), mixed_precision_losses(training, dtype)
    assert ours == pytest.approx(theirs, rel=0, abs=0.01 * theirs[0])
    assert ours[-1] < ours[0]
    assert all(parameter.dtype == torch.float32 for parameter in training.model.parameters())
