"""Copies through the host, custom kernels, and kernels that fail, in a library compiled from copies_kernels.cpp.

python examples/copies_kernels.py staged|own|keeps|failing
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


def compiled(source: Path, folder: Path) -> Path:
    """Compiles the C++ source, with the sources that it includes, into a shared library beside the backend's own."""
    torch_folder, libraries = Path(torch.__file__).parent, Path(torch_openreg._C.__file__).parent / "lib"
    include, library = torch_folder / "include", folder / f"{source.stem}.so"
    headers = ["-I", str(source.parents[1] / "csrc"), "-isystem", str(include)]
    headers += ["-isystem", str(include / "torch" / "csrc" / "api" / "include")]
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    # Hidden, as in the backend's build, so that names defined in both libraries do not clash.
    options = ["-std=c++20", "-O0", "-fPIC", "-shared", "-fvisibility=hidden"]
    link = [f"-L{torch_folder / 'lib'}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    link += ["-ltorch_openreg", "-lopenreg", "-ltorch_cpu", "-lc10"]
    subprocess.run([*compiler, *options, *headers, str(source), "-o", str(library), *link], check=True)
    return library


# LITERALINCLUDE START: copy-views-compared
def staged() -> None:
    """Copies through the host into a view and into all of a tensor, and compares all memory with the CPU's."""
    views = {
        "all": lambda x: x,
        "turned": lambda x: x.t(),
        "gaps": lambda x: x[1::2, ::3],
        "one": lambda x: x[2, 3],
        "conjugate": lambda x: x.conj()[::2],
        "negative": lambda x: x.conj().imag,
    }
    for name, view in views.items():
        agree = []
        for to in (torch.complex64, torch.complex128):
            behind = {}
            for device in ("cpu", "openreg:1"):
                source = torch.complex(torch.arange(36.0), torch.arange(36.0) - 7).reshape(6, 6).to(device)
                target = torch.full((6, 6), 99 + 98j, dtype=to, device=device)
                copy = torch.Tensor.copy_ if device == "cpu" else torch.ops.copies.strided_copy
                plain = torch.zeros(view(source).shape, dtype=to, device=device)
                copy(view(target), view(source))
                copy(plain, view(source))
                behind[device] = torch.cat([target.cpu().flatten(), plain.cpu().flatten()])
            agree.append(torch.equal(behind["cpu"], behind["openreg:1"]))
        print(name, agree)
    new = torch.ones(2, 2).pin_memory()
    with torch.Stream("openreg:1"):
        source, target = torch.zeros(2, 2, 2, device="openreg:1")
        torch.openreg._sleep(50_000_000)
        source.copy_(new, non_blocking=True)
        torch.ops.copies.strided_copy(target, source.t())
        print("behind the work of its stream", target.unique().tolist())


# LITERALINCLUDE END: copy-views-compared


# LITERALINCLUDE START: launch-own-cases
def own() -> None:
    """Launches kernels behind a busy stream, and looks at them before and after they have run."""
    kernels = torch.ops.copies
    with torch.Stream("openreg:1") as stream:
        x = torch.arange(3.0, device="openreg:1")
        torch.openreg._sleep(100_000_000)
        kernels.watched("openreg:1", "well")
        twice = kernels.doubled(kernels.doubled(x))
        print("launched:", kernels.closures(), kernels.no_autograd(), stream.query())
        stream.synchronize()
    print("done:", kernels.closures(), kernels.no_autograd(), twice.tolist())
    print("on the default stream:", kernels.doubled(x + 1).tolist(), kernels.doubled(x[:0]).tolist())


# LITERALINCLUDE END: launch-own-cases


# LITERALINCLUDE START: launch-keeps-case
def keeps() -> None:
    """Gives the last reference to a tensor to a kernel."""
    x = torch.arange(3.0, device="openreg")
    x.record_stream(torch.Stream("openreg"))
    torch.openreg._sleep(100_000_000)
    torch.ops.copies.keeps(x)
    del x
    torch.accelerator.synchronize()


# LITERALINCLUDE END: launch-keeps-case


# LITERALINCLUDE START: launch-failing-case
def failing() -> None:
    """Makes kernels raise, one that runs at once and one behind other work, and then goes on."""
    kernels = torch.ops.copies
    for how in ("exception", "number"):
        for busy in (False, True):
            try:
                if busy:
                    torch.openreg._sleep(300_000_000)
                kernels.watched("openreg:0", how)
                print("the call has returned")
                torch.accelerator.synchronize()
            except Exception as error:
                print(f"{type(error).__name__}: {error}")
    print("closures:", kernels.closures(), "and the device:", torch.ones(2, device="openreg").tolist())


# LITERALINCLUDE END: launch-failing-case


if __name__ == "__main__":
    torch.ones(1, device="openreg")
    with tempfile.TemporaryDirectory() as folder:
        torch.ops.load_library(compiled(Path(__file__).with_suffix(".cpp").resolve(), Path(folder)))
    {"staged": staged, "own": own, "keeps": keeps, "failing": failing}[sys.argv[1]]()
