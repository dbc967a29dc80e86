"""What a written repository keeps of its origin: the names, the chapters, the commit, and a digest of each file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from environment import Fault

FILE = ".vendor.json"


@dataclass(frozen=True)
class Record:
    """``chapters`` is nothing where all were taken. ``files`` has the digest of each text, as it was written."""

    device: str
    prefix: str
    chapters: list[str] | None
    commit: str
    files: dict[str, str]

    @property
    def text(self) -> str:
        """As it stands in the repository."""
        return json.dumps(asdict(self), indent=1) + "\n"


def digest(text: str) -> str:
    """What tells one text of a file from another."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(destination: Path) -> Record | None:
    """The record of a folder; nothing if it has none.

    Raises:
        Fault: if the file was damaged.
    """
    file = destination / FILE
    if not file.is_file():
        return None
    try:
        return Record(**json.loads(file.read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise Fault(f"{file} cannot be read: {error}; take it back from the commit that last had it whole") from None
