"""How many of PyTorch's headers one `#include` reads, which makes one source slow to compile and another one fast.

The compiler (`CXX`, by default c++) lists the files that it would read; nothing is compiled.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

import torch

HEADERS = (
    "torch/extension.h",
    "ATen/ATen.h",
    "torch/library.h",
    "ATen/core/Tensor.h",
    "ATen/detail/PrivateUse1HooksInterface.h",
    "c10/core/Allocator.h",
)


def files_read(header: str, include: Path) -> int:
    """The number of files below `include` that a source with nothing but this header makes the compiler read."""
    command = [*shlex.split(os.environ.get("CXX") or "c++"), "-std=c++20", "-M", "-x", "c++", "-"]
    command += [f"-I{include}", f"-I{include / 'torch/csrc/api/include'}", f"-I{sysconfig.get_path('include')}"]
    source = f"#include <{header}>\n"
    listed = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    return sum(name.startswith(str(include)) for name in listed.replace("\\\n", " ").split())


def main() -> None:
    """Prints a line for each header, with a rounded count, since a few files depend on the platform."""
    include = Path(torch.__file__).parent / "include"
    for header in HEADERS:
        count = files_read(header, include)
        print(f"{header:<42}{f'about {round(count, -2)}' if count > 150 else 'under 150':>12}")


if __name__ == "__main__":
    main()
