"""The driver over OpenCL keeps the contract, wherever an OpenCL platform is installed."""

from __future__ import annotations

import ctypes.util
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def lacking() -> str:
    """What this machine lacks of OpenCL; "" if it has a platform."""
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    asked = [*compiler, "-fsyntax-only", "-include", "CL/cl.h", "-x", "c++", os.devnull]
    if subprocess.run(asked, capture_output=True, check=False).returncode != 0:
        return "the headers of OpenCL (opencl-headers)"
    library = ctypes.util.find_library("OpenCL")
    if library is None:
        return "the loader of OpenCL (ocl-icd-opencl-dev)"
    platforms = ctypes.c_uint()
    ctypes.CDLL(library).clGetPlatformIDs(0, None, ctypes.byref(platforms))
    return "" if platforms.value else "a platform of OpenCL (pocl-opencl-icd)"


LACKING = lacking()
pytestmark = pytest.mark.skipif(
    bool(LACKING), reason=f"the driver over OpenCL is not run: this machine lacks {LACKING}"
)


def cmake(source: Path, build: Path, *definitions: str) -> None:
    """Configures and builds a project."""
    for command in (
        ["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", *definitions],
        ["cmake", "--build", str(build)],
    ):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("kit")
    cmake(ROOT / "conformance" / "driver", build)
    return build / "driver_conformance"


@pytest.fixture(scope="module", params=["OFF", "ON"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("opencl")
    cmake(ROOT / "csrc" / "driver" / "opencl", build, f"-DOPENREG_HOST_KERNELS={request.param}")
    return build / "libopenreg.so"


def environment(**variables: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OPENREG_")} | variables


@pytest.mark.parametrize("mode", ["auto", "inline"])
def test_no_check_fails(kit: Path, library: Path, tmp_path: Path, mode: str) -> None:
    file = tmp_path / "results.json"
    ran = subprocess.run(
        [kit, library, "--json", file],
        env=environment(OPENREG_LAUNCH=mode),
        capture_output=True,
        text=True,
        check=False,
    )
    checks: list[dict[str, Any]] = json.loads(file.read_text())["checks"]
    outcomes = {check["name"]: check["outcome"] for check in checks}
    assert set(outcomes.values()) <= {"passed", "not offered"}, ran.stdout
    groups = {check["group"] for check in checks if check["outcome"] == "passed"}
    assert groups >= {"modules", "launches", "extended memory", "host functions", "peers", "activity"}, ran.stdout


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"OPENREG_OPENCL_PLATFORM": "no such platform"},
            "OPENREG_OPENCL_PLATFORM is 'no such platform', which is part of no platform's name; the platforms here: '",
        ),
        ({"OPENREG_DEVICE_COUNT": "many"}, "OPENREG_DEVICE_COUNT is 'many'; valid is a number from 1 to 16"),
    ],
)
def test_wrong_environment_is_refused(kit: Path, library: Path, variables: dict[str, str], message: str) -> None:
    ran = subprocess.run(
        [kit, library, "--only", "devices"],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert message in ran.stdout


def test_device_memory_can_be_limited(kit: Path, library: Path) -> None:
    ran = subprocess.run(
        [kit, library, "--only", "memory", "--only", "limits", "--only", "extended memory"],
        env=environment(OPENREG_DEVICE_MEMORY="64M"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
