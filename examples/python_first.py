"""Runs statements with the backend of examples/python_backend, and prints what each of them gives.

    python examples/python_first.py uncompiled 'torch.ones(2, device="remote") + 1'

The first argument is the base: `uncompiled`, which is Python alone, or `compiled`, of which the C++ is compiled first.
Each further argument is one statement; in them `torch` is imported and the device `remote` exists. `sizes` instead of a
base lists the files and their lines.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path

# A process has one backend behind PrivateUse1: not the one that is installed here.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch

FOLDER = Path(__file__).parent / "python_backend"
HOST = "memory.py devices.py random.py calls.py kernels.py answers.py module.py base.py __init__.py"
FILES = {
    "the device": ("torch_remote/device", ["channel.py", "wire.py", "memory.py", "process.py"]),
    "the host": ("torch_remote", HOST.split()),
    "the base without C++": ("torch_remote", ["uncompiled.py"]),
    "the base with C++": ("torch_remote", ["compiled.py"]),
    "its C++": ("csrc", ["glue.h", "glue.cpp", "allocator.cpp", "guard.cpp", "hooks.cpp"]),
    "the compiler": (".", ["glue.py"]),
}


def sizes() -> None:
    """Prints how long the files are, without comments and blank lines."""
    for part, (folder, names) in FILES.items():
        lengths = []
        for name in names:
            lines = map(str.strip, (FOLDER / folder / name).read_text(encoding="utf-8").splitlines())
            lengths.append(sum(bool(line) and not line.startswith(("# ", "//")) for line in lines))
        listed = ", ".join(f"{name} {length}" for name, length in zip(names, lengths, strict=True))
        print(f"{part}, {sum(lengths)} lines: {listed}")


def main(base: str, *statements: str) -> None:
    """Registers the backend and runs the statements."""
    sys.path.insert(0, str(FOLDER))
    with tempfile.TemporaryDirectory() as folder:
        if base == "compiled":
            sys.path.insert(0, str(importlib.import_module("glue").compile_glue(Path(folder)).parent))
        importlib.import_module("torch_remote").register(base)
    outcome = importlib.import_module("fresh_process").outcome
    names: dict[str, object] = {"torch": torch, "os": os}
    for statement in statements:
        shown = outcome(statement, names)
        print(statement if shown == "no error" else f"{statement}\n   {shown.replace(chr(10), chr(10) + '   ')}")


if __name__ == "__main__":
    sizes() if sys.argv[1:] == ["sizes"] else main(*sys.argv[1:])
