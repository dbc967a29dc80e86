"""Exchanges tensors with a library of another vendor, which it compiles first: interop_library.cpp.

python examples/interop_library.py
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import torch

import torch_openreg._C


def library() -> Any:
    """Compiles the library against the driver alone, and imports it."""
    source, backend = Path(__file__).with_suffix(".cpp"), Path(torch_openreg._C.__file__).parent / "lib"
    headers = ["-I", str(source.parents[1] / "csrc"), "-isystem", str(Path(torch.__file__).parent / "include")]
    headers += ["-isystem", sysconfig.get_path("include")]
    compiler = [*shlex.split(os.environ.get("CXX") or "c++"), "-std=c++20", "-O0", "-fPIC", "-shared"]
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, "interop_library.so")
        link = [f"-L{backend}", f"-Wl,-rpath,{backend}", "-lopenreg"]
        subprocess.run([*compiler, *headers, str(source), "-o", str(built), *link], check=True)
        spec = importlib.util.spec_from_file_location("interop_library", built)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


# LITERALINCLUDE START: interop-library-calls
def borrow(vendor: Any) -> None:
    """Imports memory of the library on a stream, and drops it while a kernel that reads it is still queued."""
    stream = torch.Stream("openreg:1")
    with stream:
        array = vendor.Array(3, byte=0x3F, device=1)
        x = torch.from_dlpack(array)
        print("a tensor of the library's memory:", x.tolist(), x.device)
        x += 1
        print("the library sees the sum:", torch.from_dlpack(array).tolist())
        del array
        torch.openreg._sleep(100_000_000)  # nanoseconds, on the stream
        y = x * 2
        print("released while tensors remain:", vendor.released())
        del x
        print("released after the queued kernel:", vendor.released(), stream.query())
    print("what the kernel read:", [round(value, 4) for value in y.tolist()])


def lend(vendor: Any) -> None:
    """Lets the library write to a tensor, behind a kernel of the stream that is current."""
    with torch.Stream("openreg:1") as stream:
        x = torch.ones(2, 2, device="openreg:1")
        torch.openreg._sleep(100_000_000)
        x += 1
        vendor.fill_bytes(x, 0)
        print("the library has waited:", stream.query())
        print("filled behind the sum:", x.tolist())


def leave(vendor: Any) -> None:
    """Exports memory to nobody: the capsule dies with its memory."""
    before = vendor.released()
    capsule = vendor.Array(3, byte=0, device=1).__dlpack__(max_version=(1, 0))
    print("held by the capsule:", vendor.released() == before)
    del capsule
    print("released with the capsule:", vendor.released() == before + 1)
    capsule = vendor.Array(3, byte=0, device=1).__dlpack__(stream=-1, max_version=(1, 0))
    try:
        torch.from_dlpack(capsule, copy=True)
    except AssertionError as error:
        print("refused:", error)
    del capsule
    print("released with the refused capsule:", vendor.released() == before + 2)


# LITERALINCLUDE END: interop-library-calls

if __name__ == "__main__":
    compiled = library()
    borrow(compiled)
    lend(compiled)
    leave(compiled)
