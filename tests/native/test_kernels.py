"""Runs kernels.py, whose tests compare values, in a process with native kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torch_openreg import _C


@pytest.mark.skipif(not _C._has_modules(), reason="the driver takes no modules")
@pytest.mark.parametrize("launch", ["auto", "async"])
def test_values_are_those_of_the_cpu(launch: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(Path(__file__).parent / "kernels.py"),
    ]
    settings = {"OPENREG_NATIVE_KERNELS": "on", "OPENREG_CACHE_DIR": str(tmp_path), "OPENREG_LAUNCH": launch}
    result = subprocess.run(command, env={**os.environ, **settings}, text=True, capture_output=True)
    assert result.returncode == 0, result.stdout + result.stderr
