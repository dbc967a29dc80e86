"""Writes a repository into a folder that does not exist yet: all of it, or nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from environment import Fault


def write(files: dict[str, str], destination: Path, finish: Callable[[Path], None] | None = None) -> None:
    """Writes the files beside the destination, calls ``finish`` with the folder, and moves it there in one step.

    Raises:
        Fault: if the destination exists, or its parent does not, or cannot be written.
    """
    if destination.exists():
        raise Fault(f"{destination} exists; name a folder that does not, or remove it")
    if not destination.parent.is_dir():
        raise Fault(f"{destination.parent} is no folder, and the backend is to be written into it; make it first")
    try:
        beside = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    except OSError as error:
        raise Fault(f"{destination.parent} cannot be written: {error.strerror}") from None
    try:
        for name, text in files.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                path.chmod(0o755)
        beside.chmod(0o777 & ~_umask())
        if finish:
            finish(beside)
        beside.rename(destination)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
