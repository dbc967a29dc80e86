"""Threads, streams and devices at once: tests/stress/tensors.py, with fewer steps than `make stress` makes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "stress" / "tensors.py"


@pytest.mark.parametrize("options", [[], ["--faults"]], ids=["without-faults", "allocations-fail"])
def test_values_stay_right_and_no_byte_is_left(options: list[str]) -> None:
    command = [sys.executable, str(SCRIPT), "--steps", "20000", *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "left: nothing" in ran.stdout
