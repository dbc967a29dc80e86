"""Compiles a C++ program against PyTorch and the installed backend, and runs it with several numbers of devices.

python examples/hooks_from_cpp.py examples/hooks_from_cpp.cpp 2 1 none
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import torch_openreg._C


def main() -> None:
    """Compiles the program that the command line names into a folder that is removed afterwards."""
    torch_folder = Path(torch.__file__).parent
    libraries = [torch_folder / "lib", Path(torch_openreg._C.__file__).parent / "lib"]
    # The program calls nothing of libtorch_openreg, which registers itself when it is loaded: --no-as-needed keeps it.
    link = [f"-{flag}{folder}" for folder in libraries for flag in ("L", "Wl,-rpath,", "Wl,-rpath-link,")]
    link += ["-Wl,--no-as-needed", "-ltorch_openreg", "-ltorch_cpu", "-lc10"]
    source, *counts = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder, "program"))
        compiler = [*shlex.split(os.environ.get("CXX") or "c++"), "-std=c++20"]
        compiler += ["-isystem", str(torch_folder / "include")]
        subprocess.run([*compiler, source, "-o", program, *link], check=True)
        for count in counts:
            print(f"with OPENREG_DEVICE_COUNT={count}", flush=True)
            subprocess.run([program], env={**os.environ, "OPENREG_DEVICE_COUNT": count}, check=True)


if __name__ == "__main__":
    main()
