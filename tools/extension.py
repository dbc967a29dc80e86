"""Builds the extension and installs it into this environment as an editable install.

pip does this once for each change of driver. After that, ninja alone decides what is out of date: a changed source
recompiles one batch of the unity build, and Python files are read from the source tree.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from driver import chosen
from environment import ROOT, digest, locked, run_with_progress, say, torch_files
from prerequisites import compiler_command, installed_torch

# CMake and scikit-build-core read these once for each build folder, and never again.
_OPTIONS = (
    "CXX", "CXXFLAGS", "LDFLAGS", "CMAKE_ARGS", "CMAKE_BUILD_TYPE", "CMAKE_GENERATOR", "SKBUILD_CMAKE_ARGS",
    "SKBUILD_CMAKE_BUILD_TYPE", "SKBUILD_CMAKE_DEFINE",
)  # fmt: skip


def build_folder() -> Path:
    """One per environment, torch, driver, compiler and options: switching between them keeps the objects of each."""
    driver = chosen()
    key = digest(sys.prefix, *torch_files(), driver.folder, driver.host_kernels, *_options())[:8]
    return ROOT / "build" / f"{sys.implementation.cache_tag}-{key}"


def _options() -> list[str]:
    """The compiler and the options that the environment names, if it does."""
    return [f"{name}={os.environ[name]}" for name in _OPTIONS if os.environ.get(name)]


def _compiler() -> str:
    """The first line in which the compiler names its version; empty if there is none, which the build will say."""
    asked = [*compiler_command(), "--version"]
    if shutil.which(asked[0]) is None:
        return ""
    said = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=False).stdout
    return said.decode(errors="replace").partition("\n")[0]


def _leave_to_one_compiler(folder: Path) -> None:
    """Removes the folder if another compiler has built it under the same name: its objects would be taken for ours."""
    record, compiler = folder / "compiler", _compiler()
    before = (record.read_text(encoding="utf-8") if record.is_file() else "") or compiler
    if not compiler:
        return
    if before != compiler:
        say(f"the last build was by {before}, and now there is {compiler}: building everything again")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    record.write_text(compiler, encoding="utf-8")


def _is_installed_from_here() -> bool:
    """Whether the environment's torch_openreg is the editable install of this source tree."""
    try:
        record = metadata.distribution("torch_openreg").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return False
    origin = json.loads(record or "{}")
    return bool(origin.get("dir_info", {}).get("editable")) and origin.get("url") == ROOT.as_uri()


def _install_key() -> str:
    """Changes if pip has to reinstall: another interpreter, torch, driver, compiler, option or Python file."""
    spec = importlib.util.find_spec("torch")
    parts = [sys.executable, sys.version, str(spec and spec.origin), str(installed_torch()), str(chosen())]
    parts += _options()
    parts += [(ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "torch_openreg_autoload.py")]
    parts += sorted(str(path) for path in (ROOT / "torch_openreg").rglob("*.py*") if path.suffix != ".pyc")
    return digest(*parts)


def _cmake(folder: Path) -> str:
    """The cmake that configured the folder, "" if it is gone: another version could rebuild everything."""
    cache = folder / "CMakeCache.txt"
    match = re.search(r"^CMAKE_COMMAND:INTERNAL=(.+)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
    return match.group(1) if match and Path(match.group(1)).exists() else ""


def _installed_folder() -> Path:
    """The folder that cmake installs into: the one with the distribution's metadata."""
    return Path(str(metadata.distribution("torch_openreg").locate_file("")))


def _library_times() -> list[str]:
    """The installed shared objects, with their times: these reveal an install by another tool."""
    libraries = (_installed_folder() / "torch_openreg").rglob("*.so")
    return sorted(f"{path} {path.stat().st_mtime_ns}" for path in libraries)


def _can_build_incrementally(folder: Path, stamp: Path, key: str) -> bool:
    """Whether the last install is the one that the stamp records, so that ninja can bring it up to date."""
    stamped = (stamp.read_text().splitlines() if stamp.exists() else []) or [""]  # empty after a full disk
    if stamped[0] != key or not _is_installed_from_here() or not _cmake(folder):
        return False
    return stamped[1:] == _library_times()


def _install_with_pip(folder: Path) -> None:
    options = "".join(f", {option}" for option in _options())
    say(f"building and installing torch_openreg (development install{options})")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--verbose"]
    command += ["--no-build-isolation", "--no-deps", "--force-reinstall"]
    command += [f"--config-settings=cmake.define.{name}={value}" for name, value in chosen().definitions.items()]
    command += [f"--config-settings=build-dir={folder.relative_to(ROOT)}", "--editable", "."]
    run_with_progress(command)


def ensure_extension() -> None:
    """Brings the installed extension up to date with the sources."""
    folder = build_folder()
    stamp = folder / "installed"
    with locked():
        key = _install_key()
        _leave_to_one_compiler(folder)
        if _can_build_incrementally(folder, stamp, key):
            cmake = _cmake(folder)
            run_with_progress([cmake, "--build", str(folder)])
            run_with_progress([cmake, "--install", str(folder), "--prefix", str(_installed_folder())])
        else:
            _install_with_pip(folder)
            importlib.invalidate_caches()
        stamp.write_text("\n".join([key, *_library_times()]))
