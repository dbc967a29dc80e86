"""The prerequisites of a build, each as a check that returns None or one line: the fault, and what to do about it.

Shared by the build backend and the commands of the Makefile. Uses only the standard library, and evaluates nothing at
import that an old interpreter lacks, so that it reports its version instead of a traceback.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Check = Callable[[], str | None]

OLDEST_PYTHON = (3, 11)
MACHINES = ("x86_64", "aarch64")


def python_fault() -> str | None:
    """An interpreter that is too old."""
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return None
    # An active environment is used whatever PYTHON names.
    leave = "leave this environment (deactivate), or remove it"
    cure = leave if sys.prefix != sys.base_prefix else "name another one: make PYTHON=/path/to/python3"
    return (
        f"Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer is needed, {sys.executable} is "
        f"{platform.python_version()}; {cure}"
    )


def platform_fault() -> str | None:
    """An operating system or processor that the driver was not written for."""
    system, machine = platform.system(), platform.machine()
    if system == "Linux" and machine in MACHINES:
        return None
    return f"Linux on {' or '.join(MACHINES)} is needed, this is {system} on {machine}"


def compiler_command() -> list[str]:
    """The compiler that CXX names, with launcher and options, as CMake reads it: ``ccache g++``. Empty is unset."""
    return shlex.split(os.environ.get("CXX", "")) or ["c++"]


def compiler_fault() -> str | None:
    """No C++ compiler, or one without C++20."""
    command, *options = compiler_command()
    compiler = shutil.which(command) or (shutil.which("g++") if command == "c++" else None)
    if compiler is None:
        return f"a C++20 compiler is needed, found no {command!r} on PATH; install g++ 11 or newer, or set CXX"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text("#include <concepts>\n#include <span>\nstatic_assert(std::integral<int>);\n")
        probe = [compiler, *options, "-std=c++20", "-fsyntax-only", str(source)]
        ran = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ran.returncode == 0:
        return None
    named = shlex.join([compiler, *options])
    return f"a C++20 compiler is needed, {named} does not compile C++20; install g++ 11 or newer, or set CXX"


def headers_fault() -> str | None:
    """An interpreter without the C headers that the bindings need, as some distributions ship it."""
    header = Path(sysconfig.get_path("include"), "Python.h")
    if header.is_file():
        return None
    return f"the C headers of {sys.executable} are needed, {header} is missing; install python3-dev (or python3-devel)"


def torch_version(folder: Path) -> str | None:
    """The version of a torch package folder, read without importing it."""
    try:
        source = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^__version__\s*(?::[^=]*)?=\s*['\"]([^'\"]+)", source, re.MULTILINE)
    return match.group(1) if match else None


def installed_torch() -> str | None:
    """The version of the torch that this interpreter would import, or None."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    return torch_version(Path(spec.origin).parent)


def torch_releases() -> tuple[str, ...]:
    """The releases of PyTorch that pyproject.toml names, one of each supported series; the first is the reference."""
    import tomllib  # not at the top: an old interpreter has no such module

    project = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    return tuple(project["tool"]["torch"]["releases"])


def torch_series(version: str) -> str:
    """The series of a release, within which the C++ interface does not change: ``2.13`` for ``2.13.0+cpu``."""
    return ".".join(version.split(".")[:2])


def supported_series() -> str:
    """The series that this backend is written for, as part of a sentence: ``2.13, 2.14 or 2.15``."""
    *others, last = map(torch_series, torch_releases())
    return f"{', '.join(others)} or {last}" if others else last


def is_supported_torch(version: str) -> bool:
    """Whether a version belongs to a supported series."""
    return torch_series(version) in map(torch_series, torch_releases())


def is_reference_torch(version: str) -> bool:
    """Whether a version belongs to the reference series, which the pages and the committed results describe."""
    return torch_series(version) == torch_series(torch_releases()[0])


def torch_version_fault(version: str) -> str | None:
    """A release of another series."""
    if is_supported_torch(version):
        return None
    return f"PyTorch {supported_series()} is needed, found {version}; install torch=={torch_releases()[0]}"


def torch_fault() -> str | None:
    """No torch, or one of another series."""
    version = installed_torch()
    if version is None:
        return (
            f"PyTorch {supported_series()} is needed and the build environment has none; install "
            f"torch=={torch_releases()[0]} first, then run pip install --no-build-isolation"
        )
    return torch_version_fault(version)


def build_package_fault() -> str | None:
    """A build package is missing, as in a bare environment with --no-build-isolation."""
    modules = {"scikit-build-core": "scikit_build_core", "pyyaml": "yaml"}
    missing = [package for package, module in modules.items() if importlib.util.find_spec(module) is None]
    missing += [tool for tool in ("cmake", "ninja") if not (importlib.util.find_spec(tool) or shutil.which(tool))]
    if not missing:
        return None
    return f"the build needs {', '.join(missing)}; run pip install {' '.join(missing)}"


MACHINE_FAULTS: Iterable[Check] = (platform_fault, python_fault, headers_fault, compiler_fault)
BUILD_FAULTS: Iterable[Check] = (
    platform_fault,
    python_fault,
    torch_fault,
    build_package_fault,
    headers_fault,
    compiler_fault,
)


def first_fault(checks: Iterable[Check]) -> str | None:
    """The first fault that a check returns, or None."""
    for check in checks:
        fault = check()
        if fault is not None:
            return fault
    return None
