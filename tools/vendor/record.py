"""What a written repository keeps of its origin: the names, the chapters, the commit, and a digest of each file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from environment import Fault
from vendor.names import Names

FILE = ".vendor.json"


@dataclass(frozen=True)
class Record:
    """``chapters`` is nothing where all were taken, ``state`` where the repository is at none of the states on the way.

    ``files`` has the digest of each text, as it was written.
    """

    device: str
    prefix: str
    library: str
    chapters: list[str] | None
    commit: str
    files: dict[str, str]
    state: int | None = None

    @property
    def names(self) -> Names:
        """What the backend and its parts are called."""
        return Names(self.device, self.prefix, self.library)

    @property
    def text(self) -> str:
        """As it stands in the repository."""
        return json.dumps(asdict(self), indent=1) + "\n"


def of(
    names: Names, chapters: list[str] | None, commit: str, files: dict[str, str], state: int | None = None
) -> Record:
    """The record of files that are about to be written."""
    digests = {path: digest(text) for path, text in files.items()}
    return Record(names.device, names.prefix, names.library, chapters, commit, digests, state)


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
        known = json.loads(file.read_text(encoding="utf-8"))
        # Before a library could have a name of its own, it had that of the device.
        return Record(**{"library": known["device"], **known})
    except (KeyError, TypeError, ValueError) as error:
        raise Fault(f"{file} cannot be read: {error}; take it back from the commit that last had it whole") from None
