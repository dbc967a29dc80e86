"""Runs the kit as a user does: in a process of its own, on the installed backend."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KIT = ROOT / "conformance"
COMMAND = (sys.executable, "-m", "accelerator_conformance")


@dataclass(frozen=True)
class Ran:
    """A run of the kit: its status, what it wrote to the terminal, and its report."""

    status: int
    output: str
    folder: Path

    @property
    def report(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        return content

    def found(self) -> dict[str, tuple[str, str]]:
        """All checks that did not pass, with their outcome and chapter."""
        checks = self.report["checks"]
        return {one["name"]: (one["outcome"], one["chapter"]) for one in checks if one["outcome"] != "passed"}


def run_kit(folder: Path, *options: str, device: str = "openreg") -> Ran:
    return _run(folder, "--device", device, "--report", str(folder), *options)


def run_poster(file: Path, *options: str) -> Ran:
    return _run(file, "--poster", str(file), *options)


def collected(folder: Path, *options: str) -> list[str]:
    """The names of all checks, as pytest lists them."""
    ran = _run(folder / "list", "--device", "none", "--level", "complete", "--collect-only", "--quiet", *options)
    # .../test_area.py::test_what[parameters]
    found = re.findall(r"test_(\w+)\.py::test_(.*)$", ran.output, re.MULTILINE)
    return [f"{area}/{what}" for area, what in found]


def helped(folder: Path) -> Ran:
    """What a user reads who knows nothing yet, also no device."""
    return _run(folder, "--help")


def start_kit(folder: Path, *options: str, **environment: str) -> subprocess.Popen[bytes]:
    """A run that goes on in the background."""
    return subprocess.Popen([*COMMAND, *options], cwd=folder, env=_environment() | environment)


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (KIT, ROOT)))}


def _run(folder: Path, *options: str) -> Ran:
    command = [*COMMAND, *options]
    # In a folder without a project, because the settings of this repository are not those of its users.
    ran = subprocess.run(
        command, cwd=folder.parent, env=_environment(), capture_output=True, text=True, check=False, timeout=280
    )
    return Ran(ran.returncode, ran.stdout + ran.stderr, folder)
