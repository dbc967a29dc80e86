"""``make cross``: compiles driver, backend and bindings for aarch64, and runs them on an emulated processor.

The packages of PyTorch for aarch64 are downloaded, not installed. Two programs run under qemu-user: the kit that checks
drivers, and ``backend.cpp`` in this folder, which compares operators on the device with those on the CPU. Python itself
is not emulated, so the bindings are compiled, and not run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from environment import ROOT, Fault, run_with_progress, say
from prerequisites import torch_releases

COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64"
# Where Debian's package of the cross compiler has the libraries of the emulated system.
_SYSTEM = Path("/usr/aarch64-linux-gnu/lib")
HERE = Path(__file__).resolve().parent
_WORK = Path("build", "cross")
# The oldest glibc that a wheel may ask for, in the names of wheels. pip takes only the tags that it is told.
_TAGS = [f"manylinux_2_{minor}_aarch64" for minor in (17, 24, 25, 26, 27, 28)] + ["manylinux2014_aarch64"]
# A processor that the emulator knows, as the kernel describes it. When PyTorch is loaded it reads this file, and
# crashes when it finds that of another architecture.
_PROCESSOR = "neoverse-n1"
_CPUINFO = """\
processor\t: {number}
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""


@dataclass(frozen=True)
class Torch:
    """PyTorch for aarch64, and the folders of the libraries that it loads."""

    packages: Path
    libraries: list[Path]

    @property
    def folder(self) -> Path:
        """The package."""
        return self.packages / "torch"


def _require_tools() -> None:
    for program, package in ((COMPILER, "g++-aarch64-linux-gnu"), (EMULATOR, "qemu-user")):
        if shutil.which(program) is None:
            raise Fault(f"make cross needs {program}: apt-get install {package}")


def _download(requirements: Sequence[str], folder: Path) -> list[Path]:
    """Downloads the wheels for aarch64 and this Python, without what they require."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
    command += ["--no-deps", "--only-binary=:all:", f"--python-version={version}", f"--dest={folder}"]
    command += [f"--platform={tag}" for tag in _TAGS]
    run_with_progress([*command, *requirements], "the download")
    return sorted(folder.glob("*.whl"))


def _needed(wheel: zipfile.ZipFile) -> Iterator[str]:
    """The packages with the libraries that libtorch_cpu loads: those of CUDA, where the wheel was built for it."""
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    toolkit = re.search(r"^Requires-Dist: cuda-toolkit\[.*\]==(\d+\.\d+)", wheel.read(name).decode(), re.MULTILINE)
    if toolkit:
        yield from (f"nvidia-cuda-{part}=={toolkit[1]}.*" for part in ("runtime", "cupti"))


def fetch(release: str, work: Path) -> Torch:
    """Downloads and unpacks PyTorch for aarch64, unless it is there."""
    packages, done = work / f"torch-{release}", work / f"torch-{release}.done"
    if not done.exists():
        say(f"downloading PyTorch {release} for aarch64 (about 400 MB)")
        shutil.rmtree(packages, ignore_errors=True)
        wheels = packages / "wheels"
        (torch,) = _download([f"torch=={release}"], wheels)
        with zipfile.ZipFile(torch) as archive:
            archive.extractall(packages)
            others = list(_needed(archive))
        torch.unlink()
        for wheel in _download(others, wheels) if others else []:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(packages)
        shutil.rmtree(wheels)
        done.touch()
    return Torch(packages, [packages / "torch" / "lib", *sorted(packages.glob("nvidia/*/lib"))])


def build(source: Path, folder: Path, definitions: Mapping[str, str], torch: Torch) -> Path:
    """Configures and builds a CMake project for aarch64, and returns its build folder."""
    ours = Path(sys.executable).with_name("cmake")
    cmake = ours if ours.is_file() else "cmake"  # of the parent environment
    # cmake/locate_torch.py and the generator find PyTorch as Python does.
    environment = {"PYTHONPATH": str(torch.packages)}
    words = [f"-D{name}={value}" for name, value in definitions.items()]
    toolchain = HERE / "aarch64-linux-gnu.cmake"
    words += [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DCMAKE_BUILD_TYPE=Release", "-G", "Ninja"]
    run_with_progress([cmake, "-S", source, "-B", folder, *words], variables=environment)
    run_with_progress([cmake, "--build", folder], variables=environment)
    return folder


class Emulated:
    """Programs under qemu-user, in a system that has the libraries of Debian's cross compiler."""

    def __init__(self, work: Path, libraries: Sequence[Path]) -> None:
        self.root = work / "root"
        self.libraries = libraries
        (self.root / "proc").mkdir(parents=True, exist_ok=True)
        cpuinfo = "".join(_CPUINFO.format(number=number) for number in range(os.cpu_count() or 1))
        (self.root / "proc" / "cpuinfo").write_text(cpuinfo, encoding="utf-8")
        if not (self.root / "lib").exists():
            (self.root / "lib").symlink_to(_SYSTEM)

    def run(self, program: Path, *arguments: str | Path) -> str:
        """Runs a program, and returns its output. Throws: ``Fault``, if it fails."""
        command: list[str | Path] = [EMULATOR, "-cpu", _PROCESSOR, "-L", self.root]
        command += ["-E", f"LD_LIBRARY_PATH={':'.join(map(str, self.libraries))}", program, *arguments]
        # The simulated device compiles modules for the processor that it runs on.
        return run_with_progress(command, f"{program.name} for aarch64", {"OPENREG_CXX": COMPILER})


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line, which has only --help."""
    return argparse.ArgumentParser(prog="make cross", description=__doc__).parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Builds everything for aarch64, and runs what runs without Python."""
    parse(arguments)
    _require_tools()
    release, work = torch_releases()[0], ROOT / _WORK
    torch = fetch(release, work)
    python = {"Python_EXECUTABLE": sys.executable, "Python_INCLUDE_DIR": sysconfig.get_path("include")}
    say(f"building the backend for aarch64 in {_WORK / 'backend'}")
    backend = build(ROOT, work / "backend", python, torch)
    driver = backend / "csrc" / "driver"
    kit = build(ROOT / "conformance" / "driver", work / "kit", {}, torch)
    libraries = [*torch.libraries, backend / "csrc", driver]
    places = {"BACKEND": backend, "TORCH": torch.folder, "LIBRARIES": ";".join(map(str, libraries))}
    program = build(HERE, work / "program", {name: str(value) for name, value in places.items()}, torch)
    emulated = Emulated(work, libraries)
    say("running the kit of the driver, and the operators, on an emulated processor")
    checked = emulated.run(kit / "driver_conformance", driver / "libopenreg.so").splitlines()[-1]
    print(checked)
    compared = emulated.run(program / "cross_backend").splitlines()[-1]
    print(
        f"make cross: aarch64, PyTorch {release}: driver, backend and bindings compile; emulated, the driver's kit: "
        f"{checked.partition(': ')[2]}; {compared}"
    )
