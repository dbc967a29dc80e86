"""How processes end: each way of examples/errors_exit.py in processes of its own."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = runpy.run_path(str(ROOT / "examples" / "errors_exit.py"))


@pytest.mark.parametrize("way", EXAMPLE["WAYS"])
def test_a_process_ends_with_the_status_expected(way: str) -> None:
    ran = EXAMPLE["run"](way)
    assert ran.returncode == EXAMPLE["WAYS"][way][1], ran.stderr
    assert "terminate called" not in ran.stderr


def test_processes_that_end_right_after_a_backward_do_not_abort() -> None:
    assert [EXAMPLE["run"]("after-backward").returncode for _ in range(8)] == [0] * 8
