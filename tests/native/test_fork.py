"""A process that forks while one of its threads compiles a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunProcess
from torch_openreg import _C

# The child requests kernels while the lock of the compiled modules is held by a thread that it does not have.
SOURCE = """
import os, threading, time, torch
x, y = torch.ones(4, 5, device="openreg"), torch.ones(5, 4, device="openreg")
torch.openreg.synchronize()
started = threading.Event()
def compile_many():
    for dtype in (torch.float32, torch.int32, torch.int64, torch.float16):
        a, b = x.to(dtype), y.to(dtype)
        started.set()
        a.mm(b)
thread = threading.Thread(target=compile_many)
thread.start()
started.wait()
for _ in range(5):
    time.sleep(0.05)
    pid = os.fork()
    if pid == 0:
        for use in (lambda: x.abs_(), lambda: x.add_(x), lambda: x[::2, ::2].fill_(3), lambda: torch.mm(x, y)):
            try:
                use()
            except RuntimeError as error:
                print("fork" in str(error), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
thread.join()
print(x.sum().item())
"""


@pytest.mark.skipif(not _C._has_modules(), reason="the driver takes no modules")
def test_the_child_raises(run_process: RunProcess, tmp_path: Path) -> None:
    result = run_process(SOURCE, OPENREG_NATIVE_KERNELS="on", OPENREG_CACHE_DIR=str(tmp_path))
    assert result.stdout.splitlines() == ["True"] * 20 + ["20.0"], result.stderr
