"""The choice of driver and host kernels to build the extension with: `make test DRIVER=... HOST_KERNELS=OFF`.

By default they are those of CMakeLists.txt. tools/dev.py stores the choice in the environment, so that every program
behind a command uses the same.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from environment import ROOT, Fault, say, user_path
from prerequisites import installed_torch, is_reference_torch

FOLDER, KERNELS = "OPENREG_BUILD_DRIVER", "OPENREG_BUILD_HOST_KERNELS"
_SWITCH = ("ON", "OFF")
# CMake code that builds the library of a driver, or may: from a variable, or in another file.
_BUILDS = re.compile(
    r"^\s*(?:add_library\((?:openreg\s|\$\{)|include\(|add_subdirectory\()", re.MULTILINE | re.IGNORECASE
)
# The properties begin with the names of the device and of the driver, 64 characters each.
_ASK = """
import ctypes, sys
library, count = ctypes.CDLL(sys.argv[1]), ctypes.c_int()
properties = ctypes.create_string_buffer(4096)
assert library.orGetDeviceCount(ctypes.byref(count)) == 0
assert library.orGetDeviceProperties(properties, 0) == 0
device, driver = (properties.raw[at : at + 64].partition(b"\\0")[0].decode() for at in (0, 64))
print(f"{count.value} x {device} ({driver})")
"""


@dataclass(frozen=True)
class Driver:
    """A folder, relative to the repository or absolute, and ``ON`` or ``OFF`` for the host kernels."""

    folder: str
    host_kernels: str

    @property
    def definitions(self) -> dict[str, str]:
        """The definitions for CMake. Defaults are included: a build folder may remember other values."""
        return {"DRIVER": self.folder, "HOST_KERNELS": self.host_kernels}

    @property
    def name(self) -> str:
        """A name for a folder: csrc-driver-minimal-off."""
        return "-".join([*Path(self.folder).parts, self.host_kernels.lower()])

    @property
    def recorded(self) -> Driver:
        """The driver as an installation records it, without paths of the machine that built it."""
        return replace(self, folder=Path(self.folder).name) if Path(self.folder).is_absolute() else self

    def __str__(self) -> str:
        return f"driver {self.folder}, {'with' if self.host_kernels == 'ON' else 'without'} host kernels"


def default() -> Driver:
    """The defaults of CMakeLists.txt, for both pip and make."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    folder = re.search(r"^set\(DRIVER (\S+) CACHE ", text, re.MULTILINE)
    kernels = re.search(r'^option\(HOST_KERNELS "[^"]*" (ON|OFF)\)', text, re.MULTILINE)
    if folder is None or kernels is None:
        raise Fault('CMakeLists.txt has no set(DRIVER ... CACHE ...) or no option(HOST_KERNELS "..." ON or OFF)')
    return Driver(folder[1], kernels[1])


def choose(folder: str, host_kernels: str) -> None:
    """Stores a choice in the environment; an empty string changes nothing. Raises: ``Fault``."""
    if host_kernels and host_kernels not in _SWITCH:
        raise Fault(f"HOST_KERNELS={host_kernels} is neither ON nor OFF")
    if host_kernels:
        os.environ[KERNELS] = host_kernels
    if folder:
        os.environ[FOLDER] = _below_root(folder)


def _below_root(folder: str) -> str:
    """The folder, relative to the repository if it is in it. Raises: ``Fault``, if it is not a driver's."""
    found = user_path(folder).resolve()
    wanted = "name a folder whose CMakeLists.txt builds a library openreg"
    if not found.is_dir():
        raise Fault(f"DRIVER={folder}: there is no folder {found}; {wanted}")
    cmake = found / "CMakeLists.txt"
    if not cmake.is_file():
        raise Fault(f"DRIVER={folder}: {found} has no CMakeLists.txt; {wanted}")
    # Otherwise CMake would find it out, after minutes of installing.
    if not _BUILDS.search(re.sub(r"[ \t]*\(\s*", "(", cmake.read_text(encoding="utf-8", errors="replace"))):
        raise Fault(f"DRIVER={folder}: {cmake} has no add_library(openreg ...); {wanted}")
    return str(found.relative_to(ROOT) if found.is_relative_to(ROOT) else found)


def chosen() -> Driver:
    """The choice of this command."""
    usual = default()
    return Driver(os.environ.get(FOLDER, usual.folder), os.environ.get(KERNELS, usual.host_kernels))


def is_chosen() -> bool:
    """Whether the command was given a driver or host kernels."""
    return FOLDER in os.environ or KERNELS in os.environ


def installed() -> Driver | None:
    """What the installed package was built with, read without importing it; None if that is not recorded."""
    try:
        text = (_installed_package() / "_build_info.py").read_text(encoding="utf-8")
        said = dict(re.findall(r"^(\w+) = (.*)$", text, re.MULTILINE))
        return Driver(ast.literal_eval(said["DRIVER"]), "ON" if ast.literal_eval(said["HOST_KERNELS"]) else "OFF")
    except (FileNotFoundError, KeyError):
        return None


def _installed_package() -> Path:
    """The folder into which CMake has installed. Throws: ``FileNotFoundError``."""
    folders: list[object] = []
    with suppress(metadata.PackageNotFoundError):
        # Current as soon as pip has finished, in this process too.
        folders.append(metadata.distribution("torch_openreg").locate_file("torch_openreg"))
    if spec := importlib.util.find_spec("torch_openreg"):
        folders += spec.submodule_search_locations or []
    for folder in folders:
        if Path(str(folder), "_build_info.py").is_file():
            return Path(str(folder))
    raise FileNotFoundError("torch_openreg is not installed")


def announce() -> None:
    """Prints which driver replaces another, or that it is not the default."""
    now, before = chosen(), installed()
    if before is not None and before != now.recorded:
        say(f"{now}; the last install had {before}")
    elif now != default():
        say(str(now))


def result(committed: Path) -> Path:
    """Where a result goes: to the committed file, or below build/results with another driver or PyTorch."""
    about, torch = installed(), installed_torch() or ""
    others = {} if about is None or about == default() else {about.name: str(about)}
    if not is_reference_torch(torch):
        others[f"torch-{torch.partition('+')[0]}"] = f"PyTorch {torch}"
    if not others:
        return committed
    elsewhere = Path("build", "results", "-".join(others), committed.name)
    (ROOT / elsewhere).parent.mkdir(parents=True, exist_ok=True)
    say(f"{', '.join(others.values())}: the result goes to {elsewhere}, and {committed.name} of the defaults stays")
    return ROOT / elsewhere if committed.is_absolute() else elsewhere


def about_device() -> str:
    """The first line of a report: devices, driver, host kernels. Another process asks the driver, without PyTorch."""
    try:
        library = _installed_package() / "lib" / "libopenreg.so"
    except FileNotFoundError as error:
        return str(error)
    asked = subprocess.run([sys.executable, "-c", _ASK, str(library)], capture_output=True, text=True, check=False)
    devices = asked.stdout.strip() if asked.returncode == 0 else "devices that do not answer"
    return f"{devices}, {installed() or 'of an unknown driver'}"
