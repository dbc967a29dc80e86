"""What the library of csrc/stable needs from PyTorch, and how its sources compile for an older PyTorch.

python examples/custom_operators_stable.py symbols|targets|older|failures
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

import torch_openreg._C

FOLDER = Path(torch_openreg._C.__file__).parent / "lib"
SOURCES = Path(__file__).parents[1] / "csrc"


# LITERALINCLUDE START: stable-symbols-read
def undefined(library: str) -> list[str]:
    """The undefined symbols of a library, without those of the system."""
    command = ["nm", "--dynamic", "--undefined-only", "--demangle", str(FOLDER / library)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = [line.split(maxsplit=1)[1] for line in listed.splitlines() if line.split()[0] == "U"]
    return [name for name in names if "@" not in name]


def kind(name: str) -> str:
    """Who defines a symbol, and in which language."""
    if re.match(r"(aoti_)?torch_\w+$", name):
        return "functions of PyTorch in C"
    return "functions of the driver in C" if re.match(r"or[A-Z]\w+$", name) else "names of C++"


# LITERALINCLUDE END: stable-symbols-read


def symbols() -> None:
    """Compares the undefined symbols of the backend's library and of the stable one."""
    for library in ("libtorch_openreg.so", "libopenreg_stable.so"):
        print(library)
        for what, count in sorted(Counter(kind(name) for name in undefined(library)).items()):
            print(f"   {what}: {'more than 500' if count > 500 else 'more than 30' if count > 30 else 'a few'}")
    # Without functions that return constants or register operators, which depend on compiler optimizations.
    many = re.compile(r"(aoti_)?torch_(dtype|device_type|memory_format|library)_")
    for name in undefined("libopenreg_stable.so"):
        if not many.match(name):
            print("  ", name)


# LITERALINCLUDE START: stable-compile
def compiler(target: int, source: str, *options: str) -> list[str]:
    """The command that compiles one source for PyTorch 2.<target> and newer ones."""
    version = f"-DTORCH_TARGET_VERSION=0x02{target:02x}000000000000"
    headers = ["-I", str(SOURCES), "-isystem", str(Path(torch.__file__).parent / "include")]
    flags = ["-std=c++20", "-O0", "-fPIC", "-fvisibility=hidden", version]
    return [*shlex.split(os.environ.get("CXX") or "c++"), *flags, *headers, *options, str(SOURCES / source)]


# LITERALINCLUDE END: stable-compile


def missing(target: int, source: str, *options: str) -> str:
    """What the headers do not offer for this target: the names, or the message, that the compiler reports."""
    command = compiler(target, source, "-fsyntax-only", *options)
    ran = subprocess.run(command, env=os.environ | {"LC_ALL": "C"}, capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return "compiles"
    if stop := re.search(r'#error "?(.+?)"?$', ran.stderr, re.MULTILINE):
        return stop[1]
    names = re.findall(r"no member named '(\w+)'|'(\w+)' is not a member of", ran.stderr)
    return "needs " + ", ".join(sorted({first or second for first, second in names}))


def targets() -> None:
    """Compiles both sources for several versions, and one of them with a header that is not stable."""
    for target in (9, 10, 12, 13):
        for source in ("stable/rms_norm.cpp", "kernels/stable/rms_norm.cpp"):
            print(f"2.{target:<3}{source:28}{missing(target, source)}")
    print("with ATen/core/Tensor.h:", missing(13, "stable/rms_norm.cpp", "-include", "ATen/core/Tensor.h"))


# LITERALINCLUDE START: stable-older
def older() -> None:
    """Compiles the part without the device's kernel for PyTorch 2.10, and runs it with the installed PyTorch."""
    names = {}
    with tempfile.TemporaryDirectory() as folder:
        for target in (13, 10):
            library = Path(folder, f"{target}.so")
            link = ["-shared", "-L", str(Path(torch.__file__).parent / "lib"), "-ltorch_cpu"]
            subprocess.run([*compiler(target, "stable/rms_norm.cpp"), "-o", str(library), *link], check=True)
            names[target] = set(undefined(str(library)))
        torch.ops.load_library(library)
    print("used by the build for 2.13 alone:", *sorted(names[13] - names[10]))
    x, weight = torch.tensor([[3.0, 4.0], [1.0, 1.0]]), torch.ones(2)
    for device in ("cpu", "openreg"):
        print(torch.ops.openreg_stable.rms_norm(x.to(device), weight.to(device), 0.0).tolist())
    print("rms_norm fell back:", torch.openreg.fallback_stats()["openreg_stable::rms_norm"])
    attempt(lambda: torch.ops.openreg_stable.rms_norm(torch.ones(1).expand(1 << 44, 1), torch.ones(1), 0.0))


# LITERALINCLUDE END: stable-older


# LITERALINCLUDE START: stable-failures
def attempt(call: Callable[[], object]) -> None:
    """Makes a call that fails, and prints the exception and the first line that PyTorch writes to the error stream."""
    with tempfile.TemporaryFile() as written:
        kept = os.dup(2)
        os.dup2(written.fileno(), 2)
        try:
            call()
        except RuntimeError as error:
            print(f"{type(error).__name__}: {str(error).splitlines()[0]}")
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        written.seek(0)
        for line in written.read().decode().splitlines()[:1]:
            print("   and on the error stream:", line)


def failures() -> None:
    """Runs out of memory in PyTorch's operator and in one of this library that calls it; then makes a kernel fail."""
    import torch_openreg.stable  # noqa: F401 - imported for its operators

    driver = ctypes.CDLL("libopenreg.so")  # the one that the backend has loaded
    x = torch.ones(8192, 2048, device="openreg")
    driver.orInjectFault(0, 0, 6)  # the next allocations find no memory
    attempt(x.abs)
    attempt(lambda: torch.ops.openreg_stable.rms_norm(x, x[0], 0.0))
    driver.orInjectFault(0, 0, 0)
    driver.orInjectFault(1, 0, 1)  # the next kernel fails
    torch.ops.openreg_stable.rms_norm(x, x[0], 0.0)
    attempt(torch.accelerator.synchronize)
    attempt(lambda: torch.ops.openreg_stable.rms_norm(x, x[0], 0.0))


# LITERALINCLUDE END: stable-failures


if __name__ == "__main__":
    {"symbols": symbols, "targets": targets, "older": older, "failures": failures}[sys.argv[1]]()
