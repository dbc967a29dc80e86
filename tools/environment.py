"""Prepares the Python environment of a command: the active one, or .venv; what is missing is installed.

PyTorch is installed first, with an exact version: a later package that requires torch would otherwise pull the newest.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from prerequisites import (
    installed_torch,
    is_reference_torch,
    is_supported_torch,
    torch_fault,
    torch_releases,
    torch_series,
)

ROOT = Path(__file__).resolve().parent.parent
# Where the user is, to whom a relative path means something. Commands run in ROOT.
STARTED_IN = Path.cwd()
VENV = ROOT / ".venv"
LONG_AGO = 1_000_000_000  # seconds; older than any source
# Set to find out what another release changes in the pages, which are about the reference release.
PAGES_OF_ANOTHER_TORCH = "OPENREG_PAGES_OF_ANOTHER_TORCH"
# As ninja prints it.
_PROGRESS = re.compile(r"\s*\[\d+/\d+\]")


class Fault(Exception):
    """An error that stops a command; its text is the one line that the user sees."""


def say(line: str) -> None:
    """Prints one line of progress."""
    print(f"-- {line}", flush=True)


def run_with_progress(
    command: Sequence[str | Path], what: str = "the build", variables: Mapping[str, str] | None = None
) -> str:
    """Runs a command in the root, with ``variables`` added to the environment, and prints its progress lines.

    Returns:
        Its output.

    Raises:
        Fault: if it fails. The rest of its output has been printed then.
    """
    output: list[str] = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            if _PROGRESS.match(line):
                print(line.strip(), flush=True)
    if process.returncode != 0:
        sys.stdout.writelines(line for line in output if not _PROGRESS.match(line))
        raise Fault(f"{what} failed; the messages are above")
    return "".join(output)


def user_path(text: str) -> Path:
    """A path as the user has written it, with ``~`` for a home folder. Raises: ``Fault``, if there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise Fault(f"{text}: there is no home folder {text.partition('/')[0]}") from None


def in_virtual_environment() -> bool:
    """Whether this interpreter belongs to a virtual environment, or to a conda environment other than base."""
    if sys.prefix != sys.base_prefix:
        return True
    conda = os.environ.get("CONDA_PREFIX")
    return conda == sys.prefix and os.environ.get("CONDA_DEFAULT_ENV") != "base"


def digest(*parts: str) -> str:
    """One digest of several texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@contextmanager
def locked(name: str = "") -> Iterator[None]:
    """Prevents two commands from changing the environment at the same time; without a name, this interpreter's."""
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    name = name or f"{sys.implementation.cache_tag}-{digest(sys.prefix)[:8]}"
    with (folder / f"{name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another command is working in this environment, waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def chosen_interpreter() -> Path:
    """The interpreter for the command; creates .venv if no environment is active.

    Raises:
        Fault: if a .venv is there that this did not create, or one of another Python than PYTHON names.
    """
    if in_virtual_environment():
        return Path(sys.executable)
    active = os.environ.get("VIRTUAL_ENV")
    if active and Path(active, "bin", "python").exists():
        return Path(active, "bin", "python")
    if not _has_venv():
        with locked(".venv"):
            if not _has_venv():  # another command may have created it meanwhile
                _replace_venv()
    # Make hands PYTHON on if its user has set it; a bare `make` goes on with the .venv that is there.
    named, has = os.environ.get("PYTHON"), _version_of_venv()
    wanted = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if named and has not in ("", wanted):
        raise Fault(f"PYTHON={named} is {wanted}, and {VENV} has {has}: remove it, and make creates another")
    return VENV / "bin" / "python"


def _version_of_venv() -> str:
    """As 3.11; empty if it is not recorded."""
    recorded = VENV / "pyvenv.cfg"
    text = recorded.read_text(encoding="utf-8") if recorded.is_file() else ""
    found = re.search(r"^version\w* *= *(\d+\.\d+)", text, re.MULTILINE)
    return found[1] if found else ""


def _has_venv() -> bool:
    return (VENV / "complete").exists() and (VENV / "bin" / "python").exists()


def _replace_venv() -> None:
    """Creates .venv in place of what an interrupted run has left."""
    unfinished, complete = VENV / "unfinished", VENV / "complete"
    is_ours = complete.exists() or unfinished.exists() or (VENV.is_dir() and not any(VENV.iterdir()))
    if os.path.lexists(VENV) and not is_ours:
        raise Fault(f"{VENV} is there, and make did not create it: activate it, or move it away")
    shutil.rmtree(VENV, ignore_errors=True)
    VENV.mkdir(exist_ok=True)
    unfinished.touch()  # first: what an interrupted run has left is recreated, and nothing else is deleted
    _create_venv()
    unfinished.rename(complete)


def _create_venv() -> None:
    """Fills .venv; it can use the packages of its parent only if the parent has a supported torch."""
    if importlib.util.find_spec("ensurepip") is None:
        raise Fault(f"{sys.executable} cannot make a virtual environment: ensurepip is missing; install python3-venv")
    version = installed_torch()
    shares = version is not None and is_supported_torch(version)
    say(f"creating .venv with {sys.executable}" + (f", which has PyTorch {version}" if shares else ""))
    command = [sys.executable, "-m", "venv", str(VENV)]
    if shares:
        command.append("--system-site-packages")
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if ran.returncode != 0:
        raise Fault(f"{sys.executable} -m venv {VENV} failed; its output is above")


def pip(*arguments: str, variables: Mapping[str, str] | None = None) -> None:
    """Runs pip in this environment, with ``variables`` added to the process environment and its output shown."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    environment = {**os.environ, **(variables or {})}
    ran = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=False)
    if ran.returncode != 0:
        raise Fault(f"pip {' '.join(arguments)} failed; its output is above")


def _install(*arguments: str) -> None:
    """Installs with pip, which would compile every module of a package: thousands, of which a program imports hundreds.

    Python compiles each of these at its first import, unless it may not keep the result.
    """
    pip("install", *([] if sys.dont_write_bytecode else ["--no-compile"]), *arguments)


def ensure_torch(for_pages: bool = False) -> None:
    """Uses the installed PyTorch; if there is none, installs the reference release.

    With ``for_pages`` it must be of the reference series; another one in the parent environment is then overridden.
    """
    version, reference = installed_torch() or "", torch_releases()[0]
    if _is_to_be_replaced(version, for_pages):
        with locked():
            importlib.invalidate_caches()
            version = installed_torch() or ""
            if _is_to_be_replaced(version, for_pages):  # another command may have installed it meanwhile
                _install_torch(reference)
                version = reference
    fault = torch_fault()
    if fault is not None:
        raise Fault(f"{fault} in {sys.prefix}, or use another environment")
    if for_pages and not is_reference_torch(version) and not os.environ.get(PAGES_OF_ANOTHER_TORCH):
        cure = "use another environment, or none, and make creates one"
        if Path(sys.prefix) == VENV:
            cure = "remove it, and make creates another"
        raise Fault(f"the pages are about PyTorch {torch_series(reference)}, and {sys.prefix} has {version}: {cure}")


def _is_to_be_replaced(version: str, for_pages: bool) -> bool:
    if not version or _unfinished_torch().exists():
        return True
    return for_pages and not is_reference_torch(version) and not _has_own_torch()


def _unfinished_torch() -> Path:
    """A file that is there while pip installs torch: after an interrupt, only this shows that torch is incomplete."""
    return Path(sys.prefix, "torch-unfinished")


def _install_torch(release: str) -> None:
    say(f"installing torch=={release}")
    unfinished = _unfinished_torch()
    # pip takes what an interrupted run has left for an installed torch, which it cannot remove either.
    again = ["--ignore-installed"] if unfinished.exists() else []
    unfinished.touch()
    try:
        _install(*again, f"torch=={release}")
    except Fault:
        importlib.invalidate_caches()
        if not _has_own_torch():  # pip has left nothing behind
            unfinished.unlink()
        raise
    importlib.invalidate_caches()
    _age_torch()
    unfinished.unlink()


def _has_own_torch() -> bool:
    spec = importlib.util.find_spec("torch")
    return spec is not None and spec.origin is not None and Path(spec.origin).is_relative_to(sys.prefix)


def torch_files() -> list[str]:
    """The files of the installed torch that a build reads, each with its digest, as pip has recorded them.

    Empty if torch was not installed by pip.
    """
    try:
        listed = (metadata.distribution("torch").read_text("RECORD") or "").splitlines()
    except metadata.PackageNotFoundError:
        return []
    return sorted(line for line in listed if line.startswith(("torch/", "torchgen/")) and ",sha256=" in line)


def _age_torch() -> None:
    """Backdates the files of torch that a build reads: a build folder depends on their digests, not their times.

    pip sets the time of the installation, so ninja would recompile everything for the same torch. Python files keep
    their times, which are recorded in their bytecode.
    """
    site_packages = metadata.distribution("torch").locate_file("")
    for line in torch_files():
        file = Path(str(site_packages), line.rpartition(",sha256=")[0])
        if file.suffix != ".py":
            os.utime(file, (LONG_AGO, LONG_AGO))


def requirements(*extras: str) -> list[str]:
    """The requirements of the named extras of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = (requirement for extra in extras for requirement in project["optional-dependencies"][extra])
    return list(dict.fromkeys(listed))


def is_met(requirement: str) -> bool:
    """Whether an installed distribution meets a requirement.

    ``packaging`` itself comes with the extra ``build``. Without it, all requirements count as missing, and pip decides
    what to install.
    """
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:
        return False
    wanted = Requirement(requirement)
    try:
        return wanted.specifier.contains(metadata.version(wanted.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


def ensure_requirements(*extras: str) -> None:
    """Installs the requirements of the named extras that the environment does not meet."""
    if not all(map(is_met, requirements(*extras))):
        with locked():
            importlib.invalidate_caches()
            missing = [requirement for requirement in requirements(*extras) if not is_met(requirement)]
            if missing:  # another command may have installed them meanwhile
                say(f"installing {' '.join(missing)}")
                _install("--quiet", *missing)
                importlib.invalidate_caches()
