"""Wrong calls raise the CPU's errors with the CPU's messages: the error inputs of PyTorch's operator database."""

from __future__ import annotations

import re
import warnings
from itertools import islice
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

# A composite kernel, which all devices except the CPU use, calls narrow, which has messages of its own.
OTHER_WORDS = {"narrow_copy": 2}


def refusal(entry: Any, sample: Any) -> tuple[str, str] | None:
    """The type and the first line of what the call raises, without the name of the device; None if it returns."""
    try:
        entry(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        message = str(error).splitlines()[0]
        return type(error).__name__, re.sub(r"openreg(:0)?|cpu|meta", "DEVICE", message)
    return None


@pytest.mark.parametrize(
    "entry", [entry for entry in op_db if entry.error_inputs_func is not None], ids=lambda entry: entry.full_name
)
def test_refused_as_on_the_cpu(entry: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Calls like those that the library accepted before are launched without a trial, and must still be refused.
        for sample in islice(entry.sample_inputs_func(entry, "openreg", torch.float32, False), 5):
            refusal(entry, sample)
        on_cpu, on_device = (
            [error.sample_input for error in entry.error_inputs(device)] for device in ("cpu", "openreg")
        )
        if len(on_cpu) != len(on_device):
            pytest.skip("the database has other error inputs for other devices than the CPU")
        pairs = [(refusal(entry, there), refusal(entry, here)) for there, here in zip(on_cpu, on_device, strict=True)]
    torch.accelerator.synchronize()  # raises if a kernel has failed
    different = [pair for pair in pairs if pair[0] != pair[1]]
    assert len(different) == OTHER_WORDS.get(entry.name, 0), different
