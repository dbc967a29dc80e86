"""How processes end: each way of examples/errors_exit.py in a process of its own."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "errors_exit.py"
EXAMPLE = runpy.run_path(str(SCRIPT))
NUMPY_IS_ABSENT = "ignore:Failed to initialize NumPy:UserWarning"


def run(way: str) -> subprocess.CompletedProcess[str]:
    """Ends a fresh process in that way. A process that has not ended after a minute is killed."""
    command = [sys.executable, "-W", "error", "-W", NUMPY_IS_ABSENT, str(SCRIPT), way]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("way", EXAMPLE["WAYS"])
def test_a_process_ends_with_the_status_expected(way: str) -> None:
    ran = run(way)
    assert ran.returncode == EXAMPLE["WAYS"][way][1], ran.stderr
    assert "terminate called" not in ran.stderr


def test_processes_that_end_right_after_a_backward_do_not_abort() -> None:
    assert [run("after-backward").returncode for _ in range(8)] == [0] * 8
