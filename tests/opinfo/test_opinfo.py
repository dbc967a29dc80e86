"""PyTorch's own operator database, with PyTorch's own framework for tests of a device type.

`@ops` makes each method a test for each entry and dtype: a *unit*. `instantiate_device_type_tests` turns them into a
class for the device. A unit passes if all samples that the CPU supports agree with it. A unit that fails is listed with
its reason in `exceptions.toml`; a listed unit that passes is an error.
"""

from __future__ import annotations

import json
import os
import unittest
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.opinfo.core import OpInfo

from tests.opinfo import exceptions
from tests.opinfo.compare import Comparison

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.complex64,
    torch.int64,
    torch.uint8,
    torch.bool,
)
# A warning, raised as an error, would make the CPU appear to refuse a sample.
pytestmark = pytest.mark.filterwarnings("ignore")
EXCEPTIONS = exceptions.read()

# Called at the end of each test, to clear the record of its current sample. It walks the stack, which takes longer than
# most of these tests, and they keep no such record.
common_utils.extract_test_fn = lambda: None
Test = Callable[[Any, str, torch.dtype, OpInfo], None]


def on(entries: list[OpInfo], **dtypes: OpDTypes) -> Callable[[Test], Test]:
    """`@ops`, for the dtypes that are compared."""
    return cast("Callable[[Test], Test]", ops(entries, allowed_dtypes=DTYPES, **dtypes))


class TestOpInfo(TestCase):
    """Each method is a mode."""

    @on(op_db)
    def test_forward(self, device: str, dtype: torch.dtype, op: OpInfo) -> None:
        self._compare("forward", device, dtype, op)

    @on([op for op in op_db if op.reference_inputs_func is not None])
    def test_reference(self, device: str, dtype: torch.dtype, op: OpInfo) -> None:
        self._compare("reference", device, dtype, op)

    @on(op_db)
    def test_noncontiguous(self, device: str, dtype: torch.dtype, op: OpInfo) -> None:
        self._compare("noncontiguous", device, dtype, op)

    @on([op for op in op_db if op.supports_out])
    def test_out(self, device: str, dtype: torch.dtype, op: OpInfo) -> None:
        self._compare("out", device, dtype, op)

    @on([op for op in op_db if op.get_inplace() is not None])
    def test_in_place(self, device: str, dtype: torch.dtype, op: OpInfo) -> None:
        self._compare("in_place", device, dtype, op)

    @on([op for op in op_db if op.supports_autograd], dtypes=OpDTypes.supported_backward)
    def test_backward(self, device: str, dtype: torch.dtype, op: OpInfo) -> None:
        self._compare("backward", device, dtype, op)

    def _compare(self, mode: str, device: str, dtype: torch.dtype, op: OpInfo) -> None:
        unit = (op.full_name, mode, str(dtype).removeprefix("torch."))
        excuse = exceptions.excused(EXCEPTIONS, *unit)
        comparison = Comparison(op, device, dtype)
        try:
            getattr(comparison, mode)()
        except unittest.SkipTest:
            raise
        except Exception:
            record(*unit, "failed")
            if excuse is None:
                raise
            pytest.xfail(excuse.reason)
        if not comparison.compared:
            self.skipTest("there is no sample that the CPU supports")
        record(*unit, "passed")
        if excuse is not None:
            self.fail(f"{op.full_name} works with {dtype} now: take it out of {exceptions.FILE.name}")


def record(entry: str, mode: str, dtype: str, outcome: str) -> None:
    """Appends the outcome of a unit to the file OPENREG_OPINFO_RECORD, if that is set."""
    if file := os.environ.get("OPENREG_OPINFO_RECORD"):
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps([entry, mode, dtype, outcome]) + "\n")


instantiate_device_type_tests(TestOpInfo, globals(), only_for="openreg")
