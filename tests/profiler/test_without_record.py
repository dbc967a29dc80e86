"""A driver that does not record what runs: a profile says so, and no time is shown as zero."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import profile

from tests import offers
from tests.conftest import RunProcess
from tests.profiler.traces import Trace

pytestmark = pytest.mark.skipif(offers.has_activity(), reason="the driver records what runs")


def test_a_profile_says_what_is_missing(run_process: RunProcess) -> None:
    code = """
        import torch
        from torch.profiler import profile
        with profile() as recorded:
            torch.ones(2, device="openreg") + 1
        print(sorted({event.device_type.name for event in recorded.events()}))
        """
    result = run_process(code, KINETO_LOG_LEVEL="99")
    assert result.returncode == 0, result.stderr
    assert (
        "this profile lacks the device: its driver does not record what runs (it has no orActivityStart)"
        in result.stderr
    )
    assert result.stdout == "['CPU']\n"


def test_the_host_is_recorded_all_the_same() -> None:
    with profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorded:
        torch.ones(2, device="openreg") + 1
    assert "aten::add" in Trace(recorded).names("cpu_op")
