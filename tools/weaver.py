"""When Sphinx has to read all pages anew: after a change of the weaver itself, of which Sphinx knows nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

from environment import ROOT
from prerequisites import installed_torch


class Environment:
    """The pages as Sphinx has read them, in the folder ``doctrees``."""

    def __init__(self, doctrees: Path) -> None:
        self.doctrees = doctrees
        self._stamp = doctrees.with_name(f"{doctrees.name}.weaver")
        self._digest = _digest()

    @property
    def options(self) -> list[str]:
        """What Sphinx is to be started with."""
        known = self._stamp.is_file() and self._stamp.read_text(encoding="utf-8") == self._digest
        return ["--doctree-dir", str(self.doctrees), *([] if known else ["--fresh-env"])]

    def is_current(self) -> None:
        """Notes that Sphinx has read the pages with the weaver as it is."""
        self._stamp.write_text(self._digest, encoding="utf-8")


def _digest() -> str:
    """Changes with the weaver, its settings and the torch whose headers pages show."""
    digest = hashlib.sha256(str(installed_torch()).encode())
    for path in sorted([ROOT / "docs" / "source" / "conf.py", *(ROOT / "docs" / "_ext").rglob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
