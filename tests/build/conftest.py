"""Fixtures of the build tests: the package, installed once into a foreign environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.build.venvs import ROOT, ForeignVenv, allow_a_build, foreign_venv

sys.path.append(str(ROOT / "tools"))
from extension import build_folder as development_folder


def run_script(made: ForeignVenv, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs an installation script in a foreign environment."""
    allow_a_build()
    ran = made.run("bash", f"tests/build/{script}", cwd=ROOT, **variables)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


def install(made: ForeignVenv, script: str, build_folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds with other options, and installs.

    Without optimization, which takes four fifths of the time and does not affect what these tests check: the contents
    of the package, how it finds its libraries, its messages. `make test` itself runs on an optimized build.
    """
    quick = {"SKBUILD_BUILD_DIR": str(build_folder), "SKBUILD_CMAKE_DEFINE": "CMAKE_CXX_FLAGS_RELEASE=-O0"}
    return run_script(made, script, **quick)


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build folder of both installations with other options: the second recompiles only what its option affects."""
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> ForeignVenv:
    """A foreign environment into which tests/build/install.sh has installed the package.

    The wheel is linked from the objects of `make build`, so the interpreter of this environment builds it. The two
    installations with other options cover a build by another interpreter with its own pip.
    """
    made = foreign_venv(tmp_path_factory.mktemp("foreign") / "venv", builder=sys.executable)
    into = {"PIP_PREFIX": str(made.prefix), "PIP_IGNORE_INSTALLED": "1", "PIP_NO_DEPS": "1"}
    ran = run_script(made, "install.sh", SKBUILD_BUILD_DIR=str(development_folder()), **into)
    assert "tensor([1., 1.], device='openreg:0')" in ran.stdout
    return made
