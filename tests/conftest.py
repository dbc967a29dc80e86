"""Shared by all tests of the backend."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from driver import Driver, about_device, installed

from tests import offers

RunProcess = Callable[..., subprocess.CompletedProcess[str]]


# They are of the guide and of the simulated device: its texts, results that are committed, and the pages. Another
# driver has the kit of conformance/driver in the place of tests/driver.
SIMULATED = Driver("csrc/driver", "ON")
OF_THE_SIMULATED_DEVICE = (
    "build", "conformance", "docs", "driver", "driver_conformance", "examples", "fuzz", "opinfo", "python_backend",
    "weaver",
)  # fmt: skip
_TESTS = Path(__file__).parent


def _is_simulated() -> bool:
    return installed() in (None, SIMULATED)


def pytest_configure(config: pytest.Config) -> None:
    """Names the mark of what a test cannot do without."""
    config.addinivalue_line("markers", f"needs(name, ...): skipped unless the driver offers {', '.join(offers.OFFERS)}")


def pytest_report_header() -> list[str]:
    """The driver that the tests run on, and what is left out for it."""
    left = [name for name in OF_THE_SIMULATED_DEVICE if (_TESTS / name).is_dir()]
    if _is_simulated():
        return [about_device()]
    return [about_device(), f"left out, as they are of the simulated device: tests/{', tests/'.join(left)}"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out the folders of the simulated device on another one."""
    inside = collection_path.relative_to(_TESTS).parts if collection_path.is_relative_to(_TESTS) else ()
    return True if inside and inside[0] in OF_THE_SIMULATED_DEVICE and not _is_simulated() else None


@pytest.hookimpl(tryfirst=True)  # before the fixtures of the test
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what the driver does not offer."""
    for mark in item.iter_markers("needs"):
        offers.require(*mark.args)


@pytest.fixture
def run_process() -> RunProcess:
    """Runs Python code in a fresh process: for states that cannot be undone (fork, crash, environment)."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-W", "ignore:openreg runs", "-c", textwrap.dedent(code)],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def nothing_falls_back() -> Iterator[None]:
    """Raises where an operator has no kernel of the device. Random numbers are the same in each test.

    Without the kernels that run as host code nearly every operator falls back, so those tests are skipped.
    """
    offers.require("host kernels")
    torch.manual_seed(0)
    torch.openreg.set_fallback_policy("error")
    yield
    torch.openreg.set_fallback_policy("all")
