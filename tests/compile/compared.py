"""Compares a compiled function on the device with the same function on the CPU: results and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.offers import LAST_DEVICE


def _on(device: str, values: tuple[Any, ...]) -> list[Any]:
    return [
        value.detach().clone().to(device).requires_grad_(value.requires_grad)
        if isinstance(value, torch.Tensor)
        else value
        for value in values
    ]


def assert_same(function: Callable[..., Any], *values: Any, device: str = LAST_DEVICE, **options: Any) -> None:
    """Asserts that the function gives the CPU's eager results when it is compiled for the device as one graph.

    If a tensor among the values requires a gradient, the gradients are compared, too.
    """
    compiled = torch.compile(function, fullgraph=True, **options)
    assert_equal_calls(compiled, function, *values, device=device)


def assert_equal_calls(compiled: Callable[..., Any], function: Callable[..., Any], *values: Any, device: str) -> None:
    """Asserts that a function on the device and another one on the CPU give the same results and gradients."""
    inputs, expected_inputs = _on(device, values), _on("cpu", values)
    result, expected = compiled(*inputs), function(*expected_inputs)
    assert result.device == torch.device(device)
    torch.testing.assert_close(result.cpu(), expected, equal_nan=True)
    if not expected.requires_grad:
        return
    weight = torch.rand_like(expected)
    result.backward(weight.to(device))
    expected.backward(weight)
    for given, reference in zip(inputs, expected_inputs, strict=True):
        if isinstance(reference, torch.Tensor) and reference.grad is not None:
            torch.testing.assert_close(given.grad.cpu(), reference.grad)
