"""Shared by the tests of torch.compile: compiled libraries are kept in one folder for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from tests import offers
from torch_openreg.compile.patches import PATCHES

SERIES = ".".join(torch.__version__.split(".")[:2])


def pytest_configure(config: pytest.Config) -> None:
    """Inductor's import raises a warning of PyTorch's about PyTorch."""
    config.addinivalue_line("filterwarnings", "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")


@pytest.fixture(scope="package", autouse=True)
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each source is compiled once per run; the folder is the same for all workers of the run."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))
        # Otherwise Inductor starts processes that compile; they keep the output of a test's process open.
        patch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
        yield


@pytest.fixture
def inductor(nothing_falls_back: None, compiler: None) -> None:
    """For what Inductor compiles: no operator may fall back."""


@pytest.fixture
def compiler() -> Iterator[None]:
    """Skips where Inductor is refused, and forgets the graphs of earlier tests."""
    if SERIES not in PATCHES:
        pytest.skip(
            f"Inductor of torch {SERIES} is refused: its functions were not compared with those of {', '.join(PATCHES)}"
        )
    offers.require("host kernels")
    torch.compiler.reset()
    yield
    torch.openreg.synchronize()
