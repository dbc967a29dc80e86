"""A first test of a device with PyTorch's operator database: three operators, three dtypes, compared with the CPU.

    python examples/opinfo_first.py --verbose
    python examples/opinfo_first.py TestFirstOPENREG.test_as_on_the_cpu_abs_openreg_float32

The options are those of unittest.
"""

from __future__ import annotations

import unittest
import warnings
from typing import Any

import torch

with warnings.catch_warnings(action="ignore", category=ImportWarning):  # hypothesis is optional for PyTorch
    from torch.testing._internal.common_device_type import PrivateUse1TestBase, instantiate_device_type_tests, ops
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_utils import TestCase

# LITERALINCLUDE START: opinfo-first-test
OPERATORS = [entry for entry in op_db if entry.full_name in ("abs", "add", "softmax")]
DTYPES = (torch.float32, torch.complex64, torch.int64)


class TestFirst(TestCase):
    """Not a test yet: PyTorch creates one from it for each device type."""

    @ops(OPERATORS, allowed_dtypes=DTYPES)
    def test_as_on_the_cpu(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """Each sample of an entry gives on the device what it gives on the CPU."""
        for sample in op.sample_inputs(device, dtype):
            host = sample.transform(lambda value: value.cpu() if isinstance(value, torch.Tensor) else value)
            expected = op(host.input, *host.args, **host.kwargs)
            actual = op(sample.input, *sample.args, **sample.kwargs)
            self.assertEqual(str(actual.device), device)
            self.assertEqual(actual.cpu(), expected)


# Where a test records its current sample. PyTorch adds this only after it has made the first test, which lacks it.
TestFirst.test_as_on_the_cpu.tracked_input = None
PrivateUse1TestBase.setUpClass()  # before tests are made: the device type gets its name
instantiate_device_type_tests(TestFirst, globals(), only_for=torch._C._get_privateuse1_backend_name())
# LITERALINCLUDE END: opinfo-first-test


if __name__ == "__main__":
    unittest.main()
