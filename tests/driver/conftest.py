"""Fixtures of the driver's tests."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.driver import openreg as driver

ROOT = Path(__file__).resolve().parents[2]

RunDriver = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def fresh_devices() -> Iterator[None]:
    """Resets every device for the next test."""
    yield
    for device in range(driver.device_count()):
        driver.set_device(device)
        # A driver may have no reset; then what the tests have made stays.
        if (error := driver.lib.orDeviceReset()) == driver.Error.NOT_SUPPORTED:
            driver.synchronize()
        else:
            driver.check(error)
    driver.set_device(0)
    driver.lib.orGetLastError()


@pytest.fixture
def run_driver() -> RunDriver:
    """Runs code in a process of its own, with the bindings as `driver` and additional environment variables."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        prelude = "import ctypes, os, sys, threading, time\nfrom tests.driver import openreg as driver\n"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OPENREG_DEVICE_")}
        return subprocess.run(
            [sys.executable, "-c", prelude + textwrap.dedent(code)],
            cwd=ROOT,
            env=inherited | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
