"""Compiles the driver's conformance kit (conformance/driver), and checks a driver with it.

python examples/driver_conformance.py simulated|devices|memory|streams|minimal|DEFECT [options of the kit]

`devices`, `memory` and `streams` are stages of the minimal driver (driver_minimal.cpp), and DEFECT is a defect of
tests/driver_conformance/broken.cpp.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch_openreg._C

ROOT = Path(__file__).resolve().parents[1]
KIT = ROOT / "conformance" / "driver"
SIMULATED = Path(torch_openreg._C.__file__).parent / "lib" / "libopenreg.so"
INCLUDES = [word for folder in (KIT, ROOT / "csrc", ROOT / "csrc" / "driver") for word in ("-I", str(folder))]
COMPILER = [*shlex.split(os.environ.get("CXX") or "c++"), "-std=c++20", "-O0", "-fPIC", *INCLUDES]
STEPS = ("devices", "memory", "streams", "minimal")


def kit(folder: Path) -> Path:
    """Compiles the kit."""

    def compiled(source: Path) -> str:
        target = folder / f"{source.stem}.o"
        subprocess.run([*COMPILER, "-c", str(source), "-o", str(target)], check=True)
        return str(target)

    program = folder / "driver_conformance"
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, sorted(KIT.rglob("*.cpp"))))
    subprocess.run([*COMPILER, *objects, "-o", str(program), "-pthread", "-ldl"], check=True)
    return program


def library(name: str, folder: Path) -> Path:
    """Compiles the driver to be checked, unless it is the installed one."""
    if name == "simulated":
        return SIMULATED
    if name in STEPS:
        source, words = ROOT / "examples" / "driver_minimal.cpp", [f"-DSTEP={STEPS.index(name) + 1}", "-pthread"]
    else:
        source, words = ROOT / "tests" / "driver_conformance" / "broken.cpp", [f"-DDEFECT_{name}", "-Wl,--no-as-needed"]
        words += [str(SIMULATED), f"-Wl,-rpath,{SIMULATED.parent}", "-ldl"]
    product = folder / f"{name}.so"
    # Hidden, as in the driver's build: only marked symbols are exported.
    options = ["-shared", "-fvisibility=hidden"]
    subprocess.run([*COMPILER, *options, str(source), *words, "-o", str(product)], check=True)
    return product


def main(name: str, *options: str) -> int:
    """Builds the kit and the driver, and runs the kit on the driver. Returns the kit's exit status."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        asked = library(name, folder)
        # Runs in the library's folder, since the report begins with the library's name as given here.
        return subprocess.run([kit(folder), *options, asked.name], cwd=asked.parent, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
