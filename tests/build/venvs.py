"""Virtual environments that are not ours, with the packages of this one: no network, and no torch twice on disk."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = ("torch_openreg", "_torch_openreg", "__pycache__", "_virtualenv", "distutils-precedence")


@dataclass(frozen=True)
class ForeignVenv:
    """A virtual environment that knows nothing of this repository."""

    prefix: Path

    @property
    def site_packages(self) -> Path:
        """Where its packages are."""
        return next(self.prefix.glob("lib/python*/site-packages"))

    def environment(self, **variables: str) -> dict[str, str]:
        """The variables of a process in which it is active."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OPENREG_", "TORCH_", "PYTHON", "SKBUILD_"))
        }
        path = os.pathsep.join([str(self.prefix / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**inherited, "PATH": path, "VIRTUAL_ENV": str(self.prefix), **variables}

    def run(self, *command: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in it, by default in a folder of its own."""
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
        """Runs a line of Python in it."""
        return self.run(str(self.prefix / "bin" / "python"), *flags, "-c", code, cwd=cwd, **variables)


def bare_venv(prefix: Path) -> ForeignVenv:
    """An environment with nothing in it, not even pip."""
    venv.create(prefix, with_pip=False)
    return ForeignVenv(prefix)


def allow_a_build() -> None:
    """Gives the running test twenty minutes: it builds, which may take longer than what pytest allows a test.

    That is `faulthandler_timeout` of pyproject.toml, a timer of the process, which this starts anew.
    """
    faulthandler.dump_traceback_later(20 * 60, exit=True, file=sys.__stderr__ or sys.stderr)


def foreign_venv(prefix: Path) -> ForeignVenv:
    """An environment with every package of this one but ours, and pip as a command."""
    made = bare_venv(prefix)
    for folder in (Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")):
        for entry in folder.iterdir():
            link = made.site_packages / entry.name
            if not entry.name.startswith(OURS) and entry.suffix != ".pth" and not link.exists():
                link.symlink_to(entry)
    pip = prefix / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec "{prefix}/bin/python" -m pip "$@"\n')
    pip.chmod(0o755)
    return made
