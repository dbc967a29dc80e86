"""Fixtures of the build tests: the package, installed once into an environment of somebody else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.build.venvs import ROOT, ForeignVenv, allow_a_build, foreign_venv


def install(made: ForeignVenv, script: str, build_folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script that installs, into an environment of somebody else.

    Without optimization, which takes four fifths of the time and changes nothing of what is asked here: what the
    package brings with it, where it finds its libraries, what it says. `make test` itself runs on an optimized build.
    """
    allow_a_build()
    quick = {"SKBUILD_BUILD_DIR": str(build_folder), "SKBUILD_CMAKE_DEFINE": "CMAKE_CXX_FLAGS_RELEASE=-O0"}
    ran = made.run("bash", f"tests/build/{script}", cwd=ROOT, **quick)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One build folder for both installations: the second compiles only what its option changes."""
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, build_folder: Path) -> ForeignVenv:
    """A foreign environment into which tests/build/install.sh has installed the package."""
    made = foreign_venv(tmp_path_factory.mktemp("foreign") / "venv")
    ran = install(made, "install.sh", build_folder)
    assert "tensor([1., 1.], device='openreg:0')" in ran.stdout
    return made
