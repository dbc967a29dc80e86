"""What runs on the calling thread by default must be right on the stream's own thread too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent


def test_runtime_and_operators_with_every_kernel_queued() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", str(TESTS / "runtime"), str(TESTS / "aten")],
        env=os.environ | {"OPENREG_LAUNCH": "async"},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
