"""The Python environment that a command works in: the active one, or else .venv, with what is missing installed.

PyTorch comes first and by exact version: any later package that depends on torch would otherwise pull the newest.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from prerequisites import TORCH_PIN, installed_torch, is_supported_torch, torch_fault

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"


class Fault(Exception):
    """What stops a command; its text is the one line that the user sees."""


def say(line: str) -> None:
    """Prints one line of progress."""
    print(f"-- {line}", flush=True)


def in_virtual_environment() -> bool:
    """Whether this interpreter belongs to a virtual environment, or to a conda environment other than base."""
    if sys.prefix != sys.base_prefix:
        return True
    conda = os.environ.get("CONDA_PREFIX")
    return conda == sys.prefix and os.environ.get("CONDA_DEFAULT_ENV") != "base"


def chosen_interpreter() -> Path:
    """The interpreter that shall do the work; creates .venv where no environment is active."""
    if in_virtual_environment():
        return Path(sys.executable)
    active = os.environ.get("VIRTUAL_ENV")
    if active and Path(active, "bin", "python").exists():
        return Path(active, "bin", "python")
    interpreter = VENV / "bin" / "python"
    complete = VENV / "complete"
    if not (complete.exists() and interpreter.exists()):
        _create_venv()
        complete.touch()
    return interpreter


def _create_venv() -> None:
    """Makes .venv anew; it sees the packages of its parent only where the parent has the right torch already."""
    if importlib.util.find_spec("ensurepip") is None:
        raise Fault(f"{sys.executable} cannot make a virtual environment: ensurepip is missing; install python3-venv")
    version = installed_torch()
    shares = version is not None and is_supported_torch(version)
    say(f"creating .venv with {sys.executable}" + (f", which has PyTorch {version}" if shares else ""))
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    if shares:
        command.append("--system-site-packages")
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if ran.returncode != 0:
        raise Fault(f"{sys.executable} -m venv {VENV} failed; its output is above")


def pip(*arguments: str) -> None:
    """Runs pip in this environment, with its output shown."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    ran = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    if ran.returncode != 0:
        raise Fault(f"pip {' '.join(arguments)} failed; its output is above")


def ensure_torch() -> None:
    """Uses the PyTorch that is there; installs the pinned one where there is none."""
    if installed_torch() is None:
        say(f"installing torch=={TORCH_PIN}")
        pip("install", f"torch=={TORCH_PIN}")
        importlib.invalidate_caches()
    fault = torch_fault()
    if fault is not None:
        raise Fault(f"{fault} in {sys.prefix}, or use another environment")


def requirements(*extras: str) -> list[str]:
    """The requirements of the named extras of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = (requirement for extra in extras for requirement in project["optional-dependencies"][extra])
    return list(dict.fromkeys(listed))


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: 2.4.6.post1 is (2, 4, 6)."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(number) for number in match.group().split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def is_met(requirement: str) -> bool:
    """Whether an installed distribution meets a requirement of the forms name==1.2 and name>=1,<2."""
    match = re.fullmatch(r"([A-Za-z0-9._-]+)((?:(?:==|>=|<)[0-9.]+,?)*)", requirement)
    if match is None:
        raise ValueError(f"pyproject.toml: {requirement!r} is none of name, name==1.2, name>=1,<2")
    try:
        installed = _numbers(metadata.version(match.group(1)))
    except metadata.PackageNotFoundError:
        return False
    for operator, bound in re.findall(r"(==|>=|<)([0-9.]+)", match.group(2)):
        limit = _numbers(bound)
        if not {"==": installed == limit, ">=": installed >= limit, "<": installed < limit}[operator]:
            return False
    return True


def ensure_requirements(*extras: str) -> None:
    """Installs what the named extras ask for and the environment lacks."""
    missing = [requirement for requirement in requirements(*extras) if not is_met(requirement)]
    if missing:
        say(f"installing {' '.join(missing)}")
        pip("install", "--quiet", *missing)
