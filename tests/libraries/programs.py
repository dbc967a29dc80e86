"""Programs of users' libraries: each runs on the CPU, and on the device without and with the integration.

The tests run those whose library is installed.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

DEVICE = "openreg"
FLOAT32, HALF = 1e-6, 2e-2


@dataclass(frozen=True)
class Result:
    """What a program computed, and the type of the device on which it did."""

    values: Any
    where: str


@dataclass(frozen=True)
class Program:
    """A program of one library.

    It gets the type of a device, and passes it on only where a user would: many libraries choose the device.
    """

    library: str
    name: str
    run: Callable[[str], Result]
    integrations: tuple[str, ...] = ()
    """The modules of torch_openreg.integrations that must be registered."""
    without: str = "the device"
    """What happens without them: `the device`, `the CPU`, or a part of the error message."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Environment variables with which a library that loads its integration by itself does not: how it is without."""
    passes: str = ""
    """What a user must pass besides."""
    bound: float = FLOAT32
    """The largest difference from the CPU's values, relative to the largest value of each tensor."""

    @property
    def id(self) -> str:
        """A name for a test."""
        return f"{self.library}: {self.name}"

    @property
    def must(self) -> str:
        """What a user must do."""
        calls = [f"`{name}.register()`" for name in self.integrations]
        return ", ".join([*calls, *([f"`{self.passes}`"] if self.passes else [])]) or "nothing"


@dataclass(frozen=True)
class Comparison:
    """The outcome of one program."""

    without: str
    where: str
    difference: float
    seconds: float


@contextmanager
def registered(names: tuple[str, ...]) -> Iterator[None]:
    """Registers integrations for the body of a `with`."""
    modules = [importlib.import_module(f"torch_openreg.integrations.{name}") for name in names]
    forget()
    try:
        for module in modules:
            module.register()
        yield
    finally:
        for module in reversed(modules):
            module.unregister()


def forget() -> None:
    """Resets accelerate, which chooses a device once in a process."""
    if "accelerate.state" in sys.modules:
        from accelerate.state import AcceleratorState, GradientState

        AcceleratorState._reset_state(True)
        GradientState._reset_state()


def compare(program: Program) -> Comparison:
    """Runs a program in the three ways."""
    forget()
    expected = program.run("cpu")
    assert expected.where == "cpu"
    without = _without(program) if program.integrations or program.hidden else "the device"
    begun = time.monotonic()
    with registered(program.integrations):
        found = program.run(DEVICE)
    seconds = time.monotonic() - begun
    return Comparison(without, found.where, difference(found.values, expected.values), seconds)


def _without(program: Program) -> str:
    forget()
    before = dict(os.environ)
    os.environ.update(program.hidden)
    try:
        where = program.run(DEVICE).where
    except Exception as error:
        return str(error).strip().splitlines()[0]
    finally:
        os.environ.clear()
        os.environ.update(before)
    return "the CPU" if where == "cpu" else "the device"


def difference(found: Any, expected: Any) -> float:
    """The largest difference of floating-point values, relative to the largest of each tensor.

    Raises:
        AssertionError: for a value that is not finite on either side, and where anything else is not equal.
    """
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        return max((difference(found[key], expected[key]) for key in expected), default=0.0)
    if isinstance(expected, list):
        assert len(found) == len(expected)
        return max((difference(*both) for both in zip(found, expected, strict=True)), default=0.0)
    if isinstance(expected, float):
        assert all(map(math.isfinite, (found, expected))), f"{found} on the device, {expected} on the CPU"
        return float(abs(found - expected) / max(abs(expected), 1e-12))
    if isinstance(expected, torch.Tensor):
        ours, theirs = found.detach().cpu(), expected.detach().cpu()
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if not theirs.is_floating_point():
            assert torch.equal(ours, theirs)
            return 0.0
        ours, theirs = ours.double(), theirs.double()
        for name, values in (("the device", ours), ("the CPU", theirs)):  # max() would pass over a NaN
            assert torch.isfinite(values).all(), f"a value of {name} is not finite"
        return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-12))
    assert found == expected
    return 0.0
