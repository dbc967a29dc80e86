"""Registration: once per process, from anywhere, and on one base."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

torch_remote = sys.modules["torch_remote"]  # imported by conftest.py
BASE = os.environ["TORCH_REMOTE_BASE"]
OTHER = {"compiled": "uncompiled", "uncompiled": "compiled"}[BASE]


def test_a_second_time_nothing_is_left_to_do() -> None:
    """A program may call it even if ``import torch`` has done so."""
    torch_remote.register()
    torch_remote.register(BASE)
    assert torch.ones(2, device="remote").tolist() == [1, 1]


def test_the_base_stays() -> None:
    """What the first registration has done cannot be undone."""
    with pytest.raises(RuntimeError, match=f"^remote: the base is '{BASE}' already, and cannot become '{OTHER}'"):
        torch_remote.register(OTHER)


def test_there_are_two_bases() -> None:
    """A third one is rejected."""
    with pytest.raises(ValueError, match=r"^remote: a base is 'compiled' or 'uncompiled', got 'cuda'$"):
        torch_remote.register("cuda")


def test_the_glue_is_not_compiled(run_process: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    """The same interpreter, without the library."""
    code = """
        import subprocess
        lines = "import sys; sys.modules['torch_remote_glue'] = None; import torch_remote; torch_remote.register()"
        environment = {**os.environ, "TORCH_REMOTE_BASE": "compiled"}
        ran = subprocess.run([sys.executable, "-c", lines], env=environment, stderr=subprocess.PIPE, text=True)
        print(ran.stderr.splitlines()[-1])
    """
    assert "ImportError: remote: torch_remote_glue, the C++ of the backend, is not compiled" in run_process(code).stdout


def test_another_backend_is_there(run_process: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    """PyTorch has one place for all backends."""
    code = """
        import subprocess
        lines = "import torch; torch.utils.rename_privateuse1_backend('acme'); import torch_remote"
        command = [sys.executable, "-c", lines + "; torch_remote.register()"]
        ran = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        print(ran.stderr)
    """
    assert "Current backend: acme" in run_process(code).stdout
