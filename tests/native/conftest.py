"""Native kernels need a process of their own, because the import of the package decides whether they are loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import RunProcess
from torch_openreg import _C

NativeProcess = Callable[..., str]


@pytest.fixture
def run_native(run_process: RunProcess, tmp_path: Path) -> NativeProcess:
    """Runs Python code in a process with native kernels and a cache of the test's own, and returns what it prints."""
    if not _C._has_modules():
        pytest.skip("the driver takes no modules")

    def run(code: str, **environment: str) -> str:
        settings = {"OPENREG_NATIVE_KERNELS": "on", "OPENREG_CACHE_DIR": str(tmp_path / "cache"), **environment}
        result = run_process(code, **settings)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run
