"""Counts which calls create storages of a custom class (storage_class.cpp), which it compiles and loads first."""

from __future__ import annotations

import copy
import io
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch


def compiled(source: Path, folder: Path) -> Path:
    """Compiles one C++ source against the installed PyTorch into a shared library."""
    torch_folder = Path(torch.__file__).parent
    include, library = torch_folder / "include", folder / f"{source.stem}.so"
    headers = ["-isystem", str(include), "-isystem", str(include / "torch" / "csrc" / "api" / "include")]
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    options = ["-std=c++20", "-O0", "-fPIC", "-shared"]
    libraries = [f"-L{torch_folder / 'lib'}", "-ltorch_cpu", "-lc10"]
    subprocess.run([*compiler, *options, *headers, str(source), "-o", str(library), *libraries], check=True)
    return library


def error_of(call: Callable[[], object]) -> str:
    """The message of the error that the call raises."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("the call should have raised")


# LITERALINCLUDE START: storage-class-calls
def calls() -> dict[str, Callable[[], object]]:
    """One call for each way to create a storage, keyed by its text."""
    x, file = torch.ones(4, device="openreg"), io.BytesIO()
    storage = x.untyped_storage()
    torch.save(x, file)
    file.seek(0)
    return {
        'torch.UntypedStorage(8, device="openreg")': lambda: torch.UntypedStorage(8, device="openreg"),
        "storage.clone()": storage.clone,
        "storage[0:4]": lambda: storage[0:4],
        'storage.to(device="openreg:1")': lambda: storage.to(device="openreg:1"),
        "copy.deepcopy(x)": lambda: copy.deepcopy(x),
        "torch.load(file)": lambda: torch.load(file),
        'torch.empty(4, device="openreg")': lambda: torch.empty(4, device="openreg"),
        "x.clone()": x.clone,
        "x.view(2, 2), x.detach()": lambda: (x.view(2, 2), x.detach()),
        "storage.resize_(64)": lambda: storage.resize_(64),
        "torch.UntypedStorage(8)": lambda: torch.UntypedStorage(8),
        "empty_in_own_class(8)": lambda: torch.ops.storage_class.empty_in_own_class(8, "openreg"),
    }


# LITERALINCLUDE END: storage-class-calls


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.ops.load_library(compiled(Path(__file__).with_suffix(".cpp"), Path(folder)))
    own = torch.ops.storage_class
    print("for the CPU:", error_of(lambda: own.register_for("cpu")))
    own.register_for("openreg")
    print("again:", error_of(lambda: own.register_for("openreg")))
    for text, call in calls().items():
        own.made()
        result = call()
        print(f"{own.made()} of {text}, {own.alive()} alive")
        del result
    print(f"at the end: {own.alive()} alive")
