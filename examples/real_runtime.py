"""Compiles the OpenCL driver (csrc/driver/opencl) and the conformance kit, and checks the driver with the kit.

python examples/real_runtime.py [options of the kit]

It prints one line. If OpenCL is not installed, that line says what is missing, and nothing is compiled.
"""

from __future__ import annotations

import ctypes.util
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KIT = ROOT / "conformance" / "driver"
SHARED = ROOT / "csrc" / "driver"
OPENCL = SHARED / "opencl"
INCLUDES = [word for folder in (KIT, SHARED) for word in ("-I", str(folder))]
CXX = shlex.split(os.environ.get("CXX") or "c++")
COMPILER = [*CXX, "-std=c++20", "-O0", "-fPIC", "-fvisibility=hidden", *INCLUDES]


def missing() -> str:
    """The part of OpenCL that this machine lacks; empty if it has a platform."""
    header = subprocess.run(
        [*COMPILER, "-x", "c++", "-E", "-include", "CL/cl.h", os.devnull, "-o", os.devnull],
        capture_output=True,
        check=False,
    )
    if header.returncode != 0:
        return "the OpenCL headers (opencl-headers)"
    name = ctypes.util.find_library("OpenCL")
    if name is None:
        return "the OpenCL loader (ocl-icd-opencl-dev)"
    count = ctypes.c_uint(0)
    ctypes.CDLL(name).clGetPlatformIDs(0, None, ctypes.byref(count))
    return "" if count.value else "a platform of OpenCL (pocl-opencl-icd)"


def compiled(folder: Path, sources: list[Path]) -> list[str]:
    """Compiles the sources, and returns the object files."""

    def one(source: Path) -> str:
        target = folder / f"{source.parent.name}_{source.stem}.o"
        subprocess.run([*COMPILER, "-c", str(source), "-o", str(target)], check=True)
        return str(target)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, sources))


def build(folder: Path) -> tuple[Path, Path]:
    """Builds the driver, with host code as kernels, and the kit."""
    library, program = folder / "libopenreg.so", folder / "driver_conformance"
    sources = [*sorted(OPENCL.glob("*.cpp")), *(SHARED / f"{name}.cpp" for name in ("config", "error", "failure"))]
    objects = compiled(folder, sources)
    subprocess.run([*COMPILER, "-shared", *objects, "-o", str(library), "-lOpenCL", "-pthread"], check=True)
    objects = compiled(folder, sorted(KIT.rglob("*.cpp")))
    subprocess.run([*COMPILER, *objects, "-o", str(program), "-pthread", "-ldl"], check=True)
    return library, program


def main(*options: str) -> int:
    """Builds both, and prints the last line of the kit's report, or all of it when a check has failed."""
    if lacking := missing():
        print(f"OpenCL: not run, since this machine lacks {lacking}")
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        library, program = build(Path(temporary))
        ran = subprocess.run([program, *options, library], capture_output=True, text=True, check=False)
    report = ran.stdout.splitlines() or ran.stderr.splitlines()
    print("OpenCL:", report[-1] if ran.returncode == 0 else "\n".join(report))
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
