"""Calls angle with a loop in its stub, before and after its operator is registered (both: stubs_alone.cpp)."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import torch


def compiled(source: Path, folder: Path) -> Path:
    """Compiles one C++ source against the installed PyTorch into a shared library."""
    torch_folder = Path(torch.__file__).parent
    include = torch_folder / "include"
    library = folder / f"{source.stem}.so"
    options = [
        "-std=c++20",
        "-O0",
        "-fPIC",
        "-shared",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
    ]
    if torch.xpu._is_compiled():
        options.append("-DUSE_XPU")  # DispatchStub has one more slot in such a build.
    headers = ["-isystem", str(include), "-isystem", str(include / "torch" / "csrc" / "api" / "include")]
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    libraries = [f"-L{torch_folder / 'lib'}", "-ltorch_cpu", "-lc10"]
    subprocess.run([*compiler, *options, *headers, str(source), "-o", str(library), *libraries], check=True)
    return library


if __name__ == "__main__":
    source = Path(__file__).with_suffix(".cpp")
    with tempfile.TemporaryDirectory() as folder:
        torch.ops.load_library(compiled(source, Path(folder)))
    x = torch.tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]], device="openreg")
    out = torch.empty(0, device="openreg")
    print("the stub alone:", torch.angle(x, out=out).tolist(), torch.openreg.fallback_stats())
    torch.ops.stub_alone.register_angle_out()
    for matrix in (x, x.t()):
        try:
            torch.angle(matrix, out=torch.empty(0, device="openreg"))
        except RuntimeError as error:
            print("with the operator:", str(error).splitlines()[0])
    torch.ops.stub_alone.empty_the_slot()
    try:
        torch.angle(x, out=torch.empty(0, device="openreg"))
    except RuntimeError as error:
        # The rest of PyTorch's message is a path on the machine that built it.
        print("with the operator alone:", str(error).splitlines()[0].rpartition(". ")[2])
