"""Tries a repository of `make vendor` as its new owner would: builds it in its own environment, and runs the kit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from environment import ROOT, Fault
from vendor import place, record, tree, update
from vendor.names import Names

ACME = Names("acme", "am")
_INHERITED = ("VIRTUAL_ENV", "PYTHONPATH", "TORCH_DEVICE_BACKEND_AUTOLOAD", "MAKEFLAGS", "MAKELEVEL", "ARGS")
# Prints "works", or the type and the first sentence of the exception that ended the program.
_WRAPPED = """
import sys, torch
try:
    exec(sys.argv[1], {"torch": torch})
except Exception as error:
    line = str(error).partition("\\n")[0].partition(". ")[0].rstrip(".")
    print(f"{type(error).__name__}: {line}")
else:
    print("works")
"""


class Trial:
    """A folder below `build/chapters`. Its environment is kept for the next trial, and its repository until cleared."""

    def __init__(self, command: str, name: str, folder: str, optimized: bool) -> None:
        self._what = f"{command}: {name}"
        self.folder = ROOT / "build" / "chapters" / folder / f"torch_{ACME.device}"
        self._kept = self.folder.with_suffix(".venv")
        environment = {key: value for key, value in os.environ.items() if key not in _INHERITED}
        # Without our environment, whose programs dev.py puts first on PATH.
        ours = str(Path(sys.executable).parent)
        environment["PATH"] = os.pathsep.join(path for path in os.get_exec_path() if path != ours)
        if not optimized:
            environment["SKBUILD_CMAKE_DEFINE"] = "CMAKE_CXX_FLAGS_RELEASE=-O0"
        self._environment = environment

    def clear(self) -> None:
        """Removes everything but the environment, so that no file of another trial is left."""
        if (own := self.folder / ".venv").is_dir():
            own.rename(self._kept)
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, wanted: dict[str, str], chapters: list[str] | None, state: int | None = None) -> None:
        """Writes these files, or updates the repository to them."""
        before = record.read(self.folder)
        if before is None:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            place.write(wanted, self.folder)
            if self._kept.is_dir():
                self._kept.rename(self.folder / ".venv")
        else:
            update.apply(self.folder, update.changes(self.folder, before, wanted))
        made = record.of(ACME, chapters, tree.commit(), wanted, state)
        (self.folder / record.FILE).write_text(made.text, encoding="utf-8")

    def _make(self, *words: str) -> int:
        command = ["make", "-C", str(self.folder), *words]
        return subprocess.run(command, env=self._environment, check=False).returncode

    def build(self) -> None:
        """Raises: ``Fault``, if it does not build."""
        if self._make("build") != 0:
            raise Fault(f"{self._what} does not build in {self.folder}; see above")

    def ask(self, level: str, areas: str = "") -> dict[str, Any]:
        """The report of the conformance kit. Raises: ``Fault``, if there is none."""
        with tempfile.TemporaryDirectory() as folder:
            only = f" --area {areas}" if areas else ""
            self._make("conformance", f"ARGS=--level {level} --report {folder} --quiet{only}")
            report = Path(folder, "report.json")
            if not report.is_file():
                raise Fault(f"{self._what}: the kit came to no end in {self.folder}; see above")
            asked: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return asked

    def run(self, program: str) -> str:
        """Runs a Python program there: "works", or the type and the first sentence of the error."""
        python = self.folder / ".venv" / "bin" / "python"
        command = [str(python), "-W", "ignore", "-c", _WRAPPED, program]
        with tempfile.TemporaryDirectory() as elsewhere:
            ran = subprocess.run(
                command, cwd=elsewhere, env=self._environment, capture_output=True, text=True, check=False
            )
        if ran.returncode != 0:
            raise Fault(f"{self._what}: a program ended with status {ran.returncode}: {ran.stderr.strip()}")
        return ran.stdout.splitlines()[-1]
