"""Compiles the C++ of the backend, as one translation unit, against the installed PyTorch."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

import torch

SOURCE = Path(__file__).parent / "csrc" / "glue.cpp"
PRODUCT = f"torch_remote_glue{sysconfig.get_config_var('EXT_SUFFIX')}"


def compile_glue(folder: Path) -> Path:
    """Compiles into a folder with the compiler in CXX.

    Does nothing if the same compiler and PyTorch have made a result there that is newer than the sources.
    """
    product, stamp = folder / PRODUCT, folder / "torch_remote_glue.txt"
    compiler = os.environ.get("CXX") or "c++"
    made_with = f"{compiler}, PyTorch {torch.__version__}"
    newest = max(source.stat().st_mtime for source in SOURCE.parent.iterdir())
    is_made = product.exists() and stamp.exists() and stamp.read_text() == made_with
    if is_made and product.stat().st_mtime > newest:
        return product
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    installed = Path(torch.__file__).parent
    headers = [installed / "include", installed / "include/torch/csrc/api/include", sysconfig.get_path("include")]
    options = ["-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"]
    command = [*shlex.split(compiler), *options, *(f"-isystem{header}" for header in headers)]
    libraries = [f"-L{installed / 'lib'}", "-ltorch_cpu", "-lc10", "-ltorch_python"]
    subprocess.run([*command, str(SOURCE), "-o", str(product), *libraries], check=True)
    stamp.write_text(made_with)
    return product


if __name__ == "__main__":
    print(compile_glue(Path(__file__).parent / "build"))
