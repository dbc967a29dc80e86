"""The backend for all tests: on the base that TORCH_REMOTE_BASE names, compiled first if necessary."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BASE = os.environ.setdefault("TORCH_REMOTE_BASE", "compiled")
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
RunProcess = Callable[[str], subprocess.CompletedProcess[str]]

sys.path.insert(0, str(ROOT))
if BASE == "compiled":
    sys.path.insert(0, str(importlib.import_module("glue").compile_glue(ROOT / "build").parent))
importlib.import_module("torch_remote").register()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests of features that the base does not have."""
    for item in items:
        if BASE != "compiled" and item.get_closest_marker("compiled"):
            item.add_marker(pytest.mark.skip(reason="this is what the C++ is for"))


@pytest.fixture
def run_process() -> RunProcess:
    """Runs Python code in a process of its own, in which the backend is registered."""

    def run(code: str) -> subprocess.CompletedProcess[str]:
        lines = "import os, signal, sys, threading, time, torch, torch_remote; torch_remote.register()\n"
        return subprocess.run(
            [
                sys.executable,
                "-W",
                "error",
                "-W",
                "ignore:Failed to initialize NumPy",
                "-c",
                lines + textwrap.dedent(code),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def second() -> Iterator[int]:
    """The index of a device that a test may break."""
    host = importlib.import_module("torch_remote.devices")
    index = len(host.devices) - 1
    yield min(index, 1)
    host.devices[min(index, 1)].reset()


@pytest.fixture
def process_of() -> Callable[[int], int]:
    """The id of a device's process, started."""
    host = importlib.import_module("torch_remote.devices")

    def started(index: int) -> int:
        host.devices[index].ask("synchronize")
        return int(host.devices[index].started().process.pid)

    return started
