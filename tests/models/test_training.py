"""Networks of PyTorch's modules, trained on the CPU and on the device: losses, parameters and buffers agree."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from tests.models import checks
from tests.models.networks import NETWORKS, images, resnet18
from tests.models.training import Subject, largest_difference, pair


@pytest.mark.parametrize("name", NETWORKS)
def test_training_is_that_of_the_cpu(name: str) -> None:
    checks.training_is_that_of_the_cpu(NETWORKS[name])


def test_the_comparison_notices_what_is_no_number() -> None:
    model = nn.Linear(3, 3)
    other = copy.deepcopy(model)
    with torch.no_grad():
        model.bias[1] = math.nan
    assert largest_difference(model, other) == (math.inf, "bias")


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_falls_back(name: str) -> None:
    checks.nothing_falls_back(NETWORKS[name])


@pytest.mark.parametrize("dtype", checks.HALVES, ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_mixed_precision_stays_near_float32(name: str, dtype: torch.dtype) -> None:
    checks.mixed_precision_stays_near_float32(NETWORKS[name], dtype)


def test_a_network_with_kinks_in_float64() -> None:
    """Of some hundred thousand numbers, one is within float32's rounding of a kink; within that of float64, none."""
    subject = Subject(
        lambda: resnet18().double(), lambda: images() | {"inputs": torch.randn(8, 3, 32, 32, dtype=torch.float64)}
    )
    checks.training_is_that_of_the_cpu(subject, bound=1e-10)


def test_a_layout_survives_the_training() -> None:
    _, training = pair(NETWORKS["ResNet-18, channels_last"])
    training.step()
    convolutions = [module for module in training.model.modules() if isinstance(module, nn.Conv2d)]
    for convolution in convolutions:
        for tensor in (convolution.weight, convolution.weight.grad):
            assert tensor.is_contiguous(memory_format=torch.channels_last)
    assert len(convolutions) == 20  # 17, and the shortcuts between the stages


def test_the_comparison_notices_one_parameter() -> None:
    model = nn.Linear(3, 3)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.weight[2, 2] += 2e-5 * other.weight.abs().max()
    difference, name = largest_difference(model, other)
    assert name == "weight"
    assert 1e-5 < difference < 3e-5
