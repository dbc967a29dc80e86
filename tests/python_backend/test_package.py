"""The package examples/python_backend by its own tests, on both of its bases: a process has one backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "examples" / "python_backend"
TESTS = {
    "compiled": ["tests"],
    # What does not concern the base is not run again.
    "uncompiled": ["tests/test_uncompiled.py", "tests/test_tensors.py", "tests/test_random.py"],
}


@pytest.mark.parametrize("base", TESTS)
def test_its_own_tests_pass(base: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", *TESTS[base]]
    environment = {**os.environ, "TORCH_REMOTE_BASE": base, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    environment.pop("PYTEST_ADDOPTS", None)
    ran = subprocess.run(command, cwd=PACKAGE, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
