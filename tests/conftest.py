"""Shared by all tests of the backend."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

RunProcess = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_process() -> RunProcess:
    """Runs Python code in a fresh process: for states that cannot be undone (fork, crash, environment)."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
