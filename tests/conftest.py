"""Shared by all tests of the backend."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from driver import Driver, about_device, installed

from tests import offers
from tests.processes import Processes

RunProcess = Callable[..., subprocess.CompletedProcess[str]]


# These hold for the backend as shipped, with all its kernels: they test every operator, the kits, and the guide itself,
# where the repository has it.
GUIDE = Driver("csrc/driver", "ON")
OF_THE_GUIDE = (
    "build", "conformance", "docs", "driver_conformance", "examples", "fuzz", "opinfo", "python_backend", "weaver",
)  # fmt: skip
# Only for the simulated device. For another driver the kit in conformance/driver replaces them.
OF_THE_SIMULATOR = ("driver",)
_TESTS = Path(__file__).parent


def _left_out(config: pytest.Config) -> tuple[str, ...]:
    built = installed()
    if built in (None, GUIDE):
        return ()
    named = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    folders = OF_THE_GUIDE if built.folder == GUIDE.folder else OF_THE_GUIDE + OF_THE_SIMULATOR
    return tuple(name for name in folders if not any(path.is_relative_to(_TESTS / name) for path in named))


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker for what a test requires of the driver."""
    config.addinivalue_line("markers", f"needs(name, ...): skipped unless the driver offers {', '.join(offers.OFFERS)}")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Names the driver under test and the folders left out for it."""
    left = [f"tests/{name}" for name in _left_out(config) if (_TESTS / name).is_dir()]
    return [
        about_device(),
        *([f"left out, for the simulated device or the guide alone: {', '.join(left)}"] if left else []),
    ]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out the folders that are not for this driver, unless they are named."""
    inside = collection_path.relative_to(_TESTS).parts if collection_path.is_relative_to(_TESTS) else ()
    return True if inside and inside[0] in _left_out(config) else None


@pytest.hookimpl(tryfirst=True)  # before the fixtures of the test
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test that needs what the driver does not offer."""
    for mark in item.iter_markers("needs"):
        offers.require(*mark.args)


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """What `run_process` forks the processes from."""
    processes = Processes()
    yield processes
    processes.close()


@pytest.fixture
def run_process(processes: Processes) -> RunProcess:
    """Runs Python code in a fresh process: for states that cannot be undone (fork, crash, environment).

    The process must end with `status`, 0 by default; None allows any. So a crash at its end is not missed by a test
    that compares what it printed.
    """

    def run(code: str, *, status: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        ran = processes.run(textwrap.dedent(code), environment)
        assert status in (None, ran.returncode), f"it ended with {ran.returncode}, not {status}\n{ran.stderr}"
        return ran

    return run


@pytest.fixture
def first_device() -> Iterator[None]:
    """Makes the first device the current one, also for the tests that follow."""
    torch.openreg.set_device(0)
    yield
    torch.openreg.set_device(0)


@pytest.fixture
def nothing_falls_back() -> Iterator[None]:
    """Makes the fallback an error and seeds the random numbers.

    Without host kernels nearly every operator falls back, so the tests that use this are skipped.
    """
    offers.require("host kernels")
    torch.manual_seed(0)
    torch.openreg.set_fallback_policy("error")
    yield
    torch.openreg.set_fallback_policy("all")
