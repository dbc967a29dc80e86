"""Formats the renamed sources: a name that is longer or shorter than ours moves line breaks.

The formatters are those of `make check`, with the configuration that the vendor gets, so that its linters accept what
it was given.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from environment import Fault

_CPP = (".cpp", ".h")
_PYTHON = (".py", ".pyi")
_PASSES = 4


def formatted(files: dict[str, str]) -> dict[str, str]:
    """The texts as clang-format and ruff format them.

    Raises:
        Fault: with a formatter's message if it cannot read a text, or if one is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="vendor-") as temporary:
        for path, text in files.items():
            file = Path(temporary, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        sources = [path for path in files if path.endswith(_CPP)]
        # A comment that was wrapped may be aligned with adjacent ones only in the next pass.
        for _ in range(_PASSES):
            if not sources:
                break
            texts = {path: Path(temporary, path).read_text(encoding="utf-8") for path in sources}
            _run(temporary, "clang-format", "-i", *sources)
            sources = [path for path in sources if Path(temporary, path).read_text(encoding="utf-8") != texts[path]]
        if sources := [path for path in files if path.endswith(_PYTHON)]:
            # Another name sorts elsewhere among imports; a part of a file may not need them all.
            _run(temporary, "ruff", "check", "--select=I,F401", "--fix", "--quiet", "--no-cache", *sources)
            _run(temporary, "ruff", "format", "--quiet", "--no-cache", *sources)
        shaped = (path for path in files if path.endswith(_CPP + _PYTHON))
        return files | {path: Path(temporary, path).read_text(encoding="utf-8") for path in shaped}


def _run(folder: str, tool: str, *arguments: str) -> None:
    # Ours first: another version formats differently.
    path = os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])
    program = shutil.which(tool, path=path)
    if program is None:
        raise Fault(f"{tool} is not installed, which lays out the renamed sources: pip install {tool}")
    ran = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise Fault(f"{tool} failed: {(ran.stderr or ran.stdout).strip()}")
