"""Registration: once per process, from anywhere, and on one base."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

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


AUTOLOADED = """
    import subprocess
    lines = "import torch; torch.utils.rename_privateuse1_backend('acme'); import torch_remote_autoload"
    lines += "; torch_remote_autoload.autoload(); print(torch.ones(1).tolist())"
    ran = subprocess.run([sys.executable, *OPTIONS, "-c", lines], capture_output=True, text=True)
    print(ran.returncode, ran.stdout, ran.stderr)
"""
OPTIONS = [["-W", "ignore:Failed to init"], ["-W", "error", "-W", "ignore:Failed to init"]]


@pytest.mark.parametrize("options", OPTIONS, ids=["warning", "error"])
def test_import_torch_goes_on(
    run_process: Callable[[str], subprocess.CompletedProcess[str]], options: list[str]
) -> None:
    """Where another backend is registered, the process has that one, the CPU, and the reason."""
    ran = run_process(AUTOLOADED.replace("OPTIONS", repr(options)))
    assert ran.stdout.startswith("0 [1.0]\n"), ran.stdout + ran.stderr
    assert "The remote backend was not loaded: RuntimeError: " in ran.stdout
    assert "Current backend: acme" in ran.stdout
    assert "Mend or uninstall torch_remote, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and call " in ran.stdout
    assert ("RuntimeWarning: The remote" in ran.stdout) == ("error" not in options)


def test_the_entry_point_is_there() -> None:
    """``import torch`` calls what pyproject.toml names."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, function = project["project"]["entry-points"]["torch.backends"]["torch_remote"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))
    assert module in project["tool"]["setuptools"]["py-modules"]
