"""A build folder outlives a PyTorch: a replacement is detected, and everything is recompiled."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = f"""\
cmake_minimum_required(VERSION 3.25)
project(one LANGUAGES CXX)
find_package(Python REQUIRED COMPONENTS Interpreter)
include({ROOT}/cmake/Torch.cmake)
add_library(one OBJECT one.cpp)
target_link_libraries(one PRIVATE torch::c10)
add_custom_command(
  OUTPUT generated
  COMMAND ${{CMAKE_COMMAND}} -E touch generated
  DEPENDS ${{torch_schemas}}/native_functions.yaml)
add_custom_target(generate ALL DEPENDS generated)
"""


class Build:
    """A small project that is built with Torch.cmake, and a folder of packages that stands in for PyTorch."""

    def __init__(self, folder: Path) -> None:
        self.packages, self.source, self.folder = folder / "packages", folder / "source", folder / "build"
        self.schemas = self.packages / "torchgen" / "packaged" / "ATen" / "native" / "native_functions.yaml"
        for path, text in {
            self.packages / "torch" / "__init__.py": "",
            self.packages / "torch" / "lib" / "libc10.so": "__cxx11",
            self.packages / "torch" / "include" / "torch" / "csrc" / "api" / "include" / "torch.h": "",
            self.packages / "torch" / "include" / "kineto" / "libkineto.h": "",
            self.schemas: "",
            self.source / "CMakeLists.txt": PROJECT,
            self.source / "one.cpp": "int one() { return 1; }\n",
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.write_version("2.13.0")
        ninja = Path(sys.executable).with_name("ninja")
        self.cmake(
            "-G",
            "Ninja",
            "-S",
            str(self.source),
            "-B",
            str(self.folder),
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DCMAKE_MAKE_PROGRAM={ninja}",
        )

    def write_version(self, version: str) -> None:
        (self.packages / "torch" / "version.py").write_text(f"__version__ = '{version}'\nxpu = None\n")

    def cmake(self, *arguments: str, status: int = 0) -> str:
        command = [sys.executable, "-m", "cmake", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(self.packages)}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == status, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def build(self, status: int = 0) -> str:
        """Builds the project; returns the output of ninja, which must end with the status."""
        time.sleep(0.01)  # for file systems with coarse time stamps
        return self.cmake("--build", str(self.folder), status=status)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Build:
    pytest.importorskip("cmake")
    made = Build(tmp_path_factory.mktemp("project"))
    assert "one.cpp.o" in made.build()
    assert "no work to do" in made.build()
    return made


def test_another_version_of_torch_compiles_all_anew(project: Build) -> None:
    project.write_version("2.13.1")
    built = project.build()
    assert "PyTorch 2.13.1" in built
    assert "one.cpp.o" in built
    assert "no work to do" in project.build()


def test_another_list_of_operators_generates_anew(project: Build) -> None:
    project.schemas.write_text("- func: another\n")
    assert "Generating generated" in project.build()


def test_another_series_of_torch_ends_the_build(project: Build) -> None:
    project.write_version("2.12.1")  # the last test, because no build succeeds after it
    built = project.build(status=1)
    assert "is needed, found 2.12.1" in built
    assert "one.cpp.o" not in built
