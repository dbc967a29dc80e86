"""Fixtures of the build tests: the package, installed once into an environment of somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build.venvs import ROOT, ForeignVenv, allow_a_build, foreign_venv


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One build folder for both installations: the second compiles only what its option changes."""
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, build_folder: Path) -> ForeignVenv:
    """A foreign environment into which tests/build/install.sh has installed the package."""
    made = foreign_venv(tmp_path_factory.mktemp("foreign") / "venv")
    allow_a_build()
    ran = made.run("bash", "tests/build/install.sh", cwd=ROOT, SKBUILD_BUILD_DIR=str(build_folder))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "tensor([1., 1.], device='openreg:0')" in ran.stdout
    return made
