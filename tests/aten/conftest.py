"""Fixtures of the operators' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def nothing_falls_back() -> Iterator[None]:
    """Raises where an operator has no kernel of the device. Random numbers are the same in each test."""
    torch.manual_seed(0)
    torch.openreg.set_fallback_policy("error")
    yield
    torch.openreg.set_fallback_policy("all")
