"""What a report says about a failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conformance.kit import KIT

# The package is in this repository, and not installed.
sys.path.append(str(KIT))

from accelerator_conformance.isolation import Outcome
from accelerator_conformance.report import Check, Report


@pytest.mark.parametrize(
    ("outcome", "reason", "chapter"),
    [
        ("failed", "AssertionError: linear gives torch.float32 under autocast", "amp"),
        ("failed", "NotImplementedError: convolution_overrideable not implemented.", "nn_contracts"),
        ("failed", "NotImplementedError: acme: aten::_thnn_fused_gru_cell has no kernel for acme", "nn_contracts"),
        ("passed", "", "amp"),
    ],
)
def test_what_is_asked_of_devices_alone_has_one_cure(outcome: str, reason: str, chapter: str, tmp_path: Path) -> None:
    report = Report(tmp_path, {"device": "acme"})
    report.add(Check("amp/dtype_of", "What dtype has it?", "usable", "amp"), Outcome("amp/dtype_of", outcome, reason))
    assert [check.chapter for check, _ in report.ended(outcome)] == [chapter]
