"""Fixtures of the build tests: the package, installed once into an environment of somebody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.build.venvs import ROOT, ForeignVenv, allow_a_build, foreign_venv

sys.path.append(str(ROOT / "tools"))
from extension import build_folder as development_folder


def run_script(made: ForeignVenv, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a script that installs, in an environment of somebody else."""
    allow_a_build()
    ran = made.run("bash", f"tests/build/{script}", cwd=ROOT, **variables)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


def install(made: ForeignVenv, script: str, build_folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds with other options, and installs.

    Without optimization, which takes four fifths of the time and changes nothing of what is asked here: what the
    package brings with it, where it finds its libraries, what it says. `make test` itself runs on an optimized build.
    """
    quick = {"SKBUILD_BUILD_DIR": str(build_folder), "SKBUILD_CMAKE_DEFINE": "CMAKE_CXX_FLAGS_RELEASE=-O0"}
    return run_script(made, script, **quick)


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One build folder for the installations with other options: the second compiles only what its option changes."""
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> ForeignVenv:
    """A foreign environment into which tests/build/install.sh has installed the package.

    The wheel is linked from the objects of `make build`, so its builder is the interpreter of this environment; where
    another one builds, with pip of its own, the two installations with other options show.
    """
    made = foreign_venv(tmp_path_factory.mktemp("foreign") / "venv", builder=sys.executable)
    into = {"PIP_PREFIX": str(made.prefix), "PIP_IGNORE_INSTALLED": "1", "PIP_NO_DEPS": "1"}
    ran = run_script(made, "install.sh", SKBUILD_BUILD_DIR=str(development_folder()), **into)
    assert "tensor([1., 1.], device='openreg:0')" in ran.stdout
    return made
