"""Runs make as a user does, or asks what it would run."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.build.venvs import ROOT

MAKE = shutil.which("make") or "make"


def _run(folder: Path, words: Iterable[str], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    # What this test run was itself given by make.
    inherited = {name: value for name, value in os.environ.items() if name not in {"ARGS", "MAKEFLAGS"}}
    command = [MAKE, "--no-print-directory", *words]
    return subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def make(*words: str, folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs make in the repository, or in another folder."""
    return _run(folder, words, variables)


def recipe(*words: str, folder: Path = ROOT, variables: Mapping[str, str] | None = None) -> list[str]:
    """The words that make would give to tools/dev.py."""
    ran = _run(folder, ["--dry-run", *words], variables or {})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    _, tool, *given = shlex.split(ran.stdout.splitlines()[-1])
    assert tool == "tools/dev.py"
    return given


def own_lines(ran: subprocess.CompletedProcess[str]) -> list[str]:
    """The output of a failed make, without the line that make itself adds."""
    assert ran.returncode == 2, ran.stdout + ran.stderr
    return [line for line in (ran.stdout + ran.stderr).splitlines() if not line.startswith("make")]
