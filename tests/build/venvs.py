"""Foreign virtual environments with links to the packages of this one: no network, and no second copy of torch."""

from __future__ import annotations

import csv
import faulthandler
import os
import subprocess
import sys
import venv
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
OURS = ("torch_openreg", "_torch_openreg", "__pycache__", "_virtualenv", "distutils-precedence")


@dataclass(frozen=True)
class ForeignVenv:
    """A virtual environment that does not know this repository."""

    prefix: Path

    @property
    def site_packages(self) -> Path:
        """The folder of its packages."""
        return next(self.prefix.glob("lib/python*/site-packages"))

    def environment(self, **variables: str) -> dict[str, str]:
        """The environment variables of a process in which it is active."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OPENREG_", "TORCH_", "PYTHON", "SKBUILD_"))
        }
        path = os.pathsep.join([str(self.prefix / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**inherited, "PATH": path, "VIRTUAL_ENV": str(self.prefix), **variables}

    def run(self, *command: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in it, by default in its own folder."""
        return subprocess.run(
            command,
            cwd=cwd or self.prefix,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def python(
        self, code: str, *flags: str, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs Python code in it."""
        return self.run(str(self.prefix / "bin" / "python"), *flags, "-c", code, cwd=cwd, **variables)


def bare_venv(prefix: Path) -> ForeignVenv:
    """An environment with nothing in it, not even pip."""
    venv.create(prefix, with_pip=False)
    return ForeignVenv(prefix)


def write_empty_wheel(folder: Path, name: str, version: str, requirements: Iterable[str]) -> None:
    """Writes a wheel with only metadata, which is all that pip reads to choose one."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    head = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {one}" for one in requirements),
    ]
    files = {
        f"{info}/METADATA": "\n".join(head) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)


def allow_a_build() -> None:
    """Gives the running test twenty minutes, because a build may exceed the time limit of a test.

    The limit is `faulthandler_timeout` of pyproject.toml, a timer of the process, which this restarts.
    """
    faulthandler.dump_traceback_later(20 * 60, exit=True, file=sys.__stderr__ or sys.stderr)


def foreign_venv(prefix: Path, builder: str | None = None) -> ForeignVenv:
    """An environment with every package of this one except ours, and a pip command that runs under `builder`."""
    made = bare_venv(prefix)
    for folder in (Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")):
        for entry in folder.iterdir():
            link = made.site_packages / entry.name
            if not entry.name.startswith(OURS) and entry.suffix != ".pth" and not link.exists():
                link.symlink_to(entry)
    pip = prefix / "bin" / "pip"
    interpreter = builder or str(prefix / "bin" / "python")
    pip.write_text(f'#!/bin/sh\nexec "{interpreter}" -m pip "$@"\n')
    pip.chmod(0o755)
    return made


def closure(requirements: Iterable[str]) -> set[str]:
    """The transitive closure of the distributions that requirements name."""
    waiting = [Requirement(requirement) for requirement in requirements]
    seen: set[tuple[str, str]] = set()
    while waiting:
        wanted = waiting.pop()
        for extra in wanted.extras or {""}:
            key = canonicalize_name(wanted.name), extra
            if key not in seen:
                seen.add(key)
                further = map(Requirement, metadata.requires(wanted.name) or ())
                waiting += [each for each in further if each.marker is None or each.marker.evaluate({"extra": extra})]
    return {name for name, _ in seen}


@cache
def _installed() -> dict[str, set[Path]]:
    """The installed paths of each distribution: whole folders, or single files in folders that several share."""
    files: dict[str, list[Path]] = {}
    owners: dict[str, set[str]] = defaultdict(set)
    for distribution in metadata.distributions():
        name = canonicalize_name(distribution.name)
        record = csv.reader((distribution.read_text("RECORD") or "").splitlines())
        files.setdefault(name, [Path(path) for path, *_ in record])
        for file in files[name]:
            owners[file.parts[0]].add(name)
    return {
        name: {file if len(owners[file.parts[0]]) > 1 else Path(file.parts[0]) for file in of_name}
        for name, of_name in files.items()
    }


def narrow_venv(prefix: Path, requirements: Iterable[str]) -> ForeignVenv:
    """An environment with only those packages of this one that the requirements need, directly or indirectly."""
    made = bare_venv(prefix)
    for name in closure(requirements):
        base = Path(str(metadata.distribution(name).locate_file("")))
        for path in _installed()[name]:
            if path.parts[0] != "..":
                link = made.site_packages / path
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(base / path)
            elif path.parent.name == "bin":
                _adopt((base / path).resolve(), prefix / "bin" / path.name)
    return made


def _adopt(program: Path, place: Path) -> None:
    """Puts a program into another environment; the Python of that environment runs scripts."""
    content = program.read_bytes()
    if content.startswith(b"#!") and b"python" in content.partition(b"\n")[0]:
        place.write_bytes(f"#!{place.parent / 'python'}\n".encode() + content.partition(b"\n")[2])
        place.chmod(0o755)
    else:
        place.symlink_to(program)
