"""Entries of PyTorch's operator database, compiled by Inductor for the device, against the CPU's eager results.

Each compiled sample takes seconds, so the first two of an entry run, in float32. One entry in sixty is chosen by
OPENREG_OPINFO, a number; `all` chooses all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from tests.offers import LAST_DEVICE
from tests.opinfo import exceptions
from tests.opinfo.compare import FACTORIES, ON_CPU, Comparison

SAMPLES = 2
SHARE = 60
EXCEPTIONS = exceptions.read()
# In evaluation, PyTorch's decomposition returns the statistics on every device but the CPU, whose kernel returns none.
STATISTICS = {"native_batch_norm", "_native_batch_norm_legit"}
pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.filterwarnings("ignore")]


class Compiled(Comparison):
    """Compiles what runs on the device: in one of Inductor's modes."""

    mode = "default"

    def _samples(self, *, requires_grad: bool = False) -> Iterable[SampleInput]:
        return islice(super()._samples(requires_grad=requires_grad), SAMPLES)

    def _call(self, sample: SampleInput) -> Any:
        if sample.name == ON_CPU:
            return super()._call(sample)
        kwargs = {**sample.kwargs, "device": self.device} if self.op.name in FACTORIES else sample.kwargs
        torch.compiler.reset()
        compiled = torch.compile(_caller(self.op), fullgraph=True, dynamic=False, mode=self.mode)
        if self.mode == "reduce-overhead":
            # The first call launches the kernels. The second one is captured, and replayed.
            compiled(sample.input, *sample.args, **kwargs)
        return compiled(sample.input, *sample.args, **kwargs)


def _caller(op: OpInfo) -> Callable[..., Any]:
    """The operator in a function: Dynamo does not trace a call of PyTorch's test framework."""
    operator = op.op

    def call(*args: Any, **kwargs: Any) -> Any:
        return operator(*args, **kwargs)

    return call


def _chosen() -> list[OpInfo]:
    entries = [
        op
        for op in op_db
        if op.name not in STATISTICS
        and torch.float32 in op.dtypes
        and exceptions.excused(EXCEPTIONS, op.full_name, "forward", "float32") is None
    ]
    wanted = os.environ.get("OPENREG_OPINFO", "0")
    return entries if wanted == "all" else entries[int(wanted) % SHARE :: SHARE]


class Replayed(Compiled):
    """Replays what runs on the device."""

    mode = "reduce-overhead"


@pytest.mark.parametrize("subject", [Compiled, pytest.param(Replayed, marks=pytest.mark.needs("graphs"))])
@pytest.mark.parametrize("op", _chosen(), ids=lambda op: op.full_name)
def test_an_entry(op: OpInfo, subject: type[Compiled]) -> None:
    comparison = subject(op, LAST_DEVICE, torch.float32)
    try:
        comparison.forward()
    except Exception:
        if op.name in FACTORIES:
            raise
        try:
            Compiled(op, "cpu", torch.float32).forward()
        except Exception as error:
            pytest.skip(f"it fails when it is compiled for the CPU, too: {type(error).__name__}")
        raise
    if not comparison.compared:
        pytest.skip("there is no sample that the CPU supports")
