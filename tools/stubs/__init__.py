"""``make stubs``: finds which operators of PyTorch read which stubs, and what a backend registers so that they do.

PyTorch's package does not contain its C++ sources, so this is observed: a preloaded library records each read of a stub
while the samples of PyTorch's operator database run, on the CPU and then on the device. This takes some minutes on one
processor. The result is committed; `make check` reports when it is for another PyTorch.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from driver import result
from environment import Fault, say
from prerequisites import compiler_command, installed_torch

RESULT = Path("docs", "proof", "stubs.json")
BUILD = Path("docs", "build", "stubs")
FOLDER = Path("tools", "stubs")


def main() -> None:
    """Runs both passes and writes the table. Throws: ``Fault``, if one of them fails."""
    started = time.monotonic()
    BUILD.mkdir(parents=True, exist_ok=True)
    probe = compiled_probe(BUILD)
    seen, device, rows = BUILD / "cpu.json", BUILD / "device.txt", BUILD / "rows.json"
    device.unlink(missing_ok=True)
    say("running PyTorch's operators on the CPU")
    if _pass(probe, "cpu", str(seen)) != 0:
        raise Fault("make stubs: the operators could not be run; see above")
    say("running them on the device")
    while (status := _pass(probe, "device", str(seen), str(device))) != 0:
        if status > 0:
            raise Fault("make stubs: the operators could not be run on the device; see above")
        operator = device.read_text(encoding="utf-8").rpartition("\n")[2]
        say(f"{operator} was killed by signal {-status}: PyTorch's kernel for it does not serve other devices")
        with device.open("a", encoding="utf-8") as lines:
            lines.write(" []\n")
    if _pass(probe, "table", str(seen), str(device), str(rows)) != 0:
        raise Fault("make stubs: the table could not be made; see above")
    stubs = json.loads(rows.read_text(encoding="utf-8"))
    if not any(row["readers"] for row in stubs):
        raise Fault("make stubs: no operator was seen to read a stub, so the probe has recorded nothing; see above")
    document = {"made": str(date.today()), "torch": _release(), "digest": digest(), "stubs": stubs}
    file = result(RESULT)
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"make stubs: {len(stubs)} stubs are in {file} ({time.monotonic() - started:.0f} s)")


def compiled_probe(folder: Path) -> Path:
    """Compiles the library that is preloaded, and returns its path.

    It stays relative if ``folder`` is: ld.so splits LD_PRELOAD at blanks and colons, which a clone's path may have.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise Fault("make stubs: PyTorch is needed")
    torch, library = Path(spec.origin).parent, folder / "probe.so"
    # The number of a stub's CPU functions depends on the instruction sets PyTorch was built for (csrc/CMakeLists.txt).
    arm = platform.machine() in ("aarch64", "arm64")
    sets = ("SVE",) if arm else ("AVX2", "AVX512")
    options = ["-std=c++20", "-O1", "-fPIC", "-shared", *(f"-DHAVE_{name}_CPU_DEFINITION" for name in sets)]
    paths = ["-isystem", str(torch / "include"), f"-L{torch / 'lib'}", f"-Wl,-rpath,{torch / 'lib'}"]
    libraries = ["-Wl,--no-as-needed", "-ltorch_cpu", "-lc10"]
    command = [*compiler_command(), *options, str(FOLDER / "probe.cpp"), "-o", str(library), *paths, *libraries]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
    return library


def _pass(probe: Path, *arguments: str) -> int:
    environment = {**os.environ, "LD_PRELOAD": str(probe), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(FOLDER / "sweep.py"), *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, env=environment, check=False).returncode


def stale() -> Iterator[str]:
    """Yields the fault of the result, if any."""
    if not RESULT.is_file():
        yield f"{RESULT} is missing: run `make stubs`"
    elif json.loads(RESULT.read_text(encoding="utf-8"))["digest"] != digest():
        yield f"{RESULT}: PyTorch, or what is run, has changed since it was made: run `make stubs`"


def digest() -> str:
    """A hash of the scripts in this folder and the release of PyTorch."""
    result = hashlib.sha256(_release().encode())
    for path in sorted(path for path in FOLDER.iterdir() if path.suffix in {".py", ".cpp"}):
        result.update(path.name.encode() + b"\0" + path.read_bytes())
    return result.hexdigest()


def _release() -> str:
    return str(installed_torch()).partition("+")[0]
