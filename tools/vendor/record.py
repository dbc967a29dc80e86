"""What a written repository records of its origin: the names, the chapters, the commit, and a digest of each file."""

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
    """``chapters`` is None if all were taken, ``state`` if the repository is at none of the states.

    ``files`` has the digest of each text as written.
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
        """The names of the backend and its parts."""
        return Names(self.device, self.prefix, self.library)

    @property
    def text(self) -> str:
        """The text of the record's file."""
        return json.dumps(asdict(self), indent=1) + "\n"


def of(
    names: Names, chapters: list[str] | None, commit: str, files: dict[str, str], state: int | None = None
) -> Record:
    """The record of files that are about to be written."""
    digests = {path: digest(text) for path, text in files.items()}
    return Record(names.device, names.prefix, names.library, chapters, commit, digests, state)


def digest(text: str) -> str:
    """A digest that tells one text of a file from another."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(destination: Path) -> Record | None:
    """The record of a folder; None if it has none.

    Raises:
        Fault: if the file is damaged.
    """
    file = destination / FILE
    if not file.is_file():
        return None
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
        # Older records have no name of the library: it was that of the device.
        return Record(**{"library": known["device"], **known})
    except (KeyError, TypeError, ValueError) as error:
        raise Fault(f"{file} cannot be read: {error}; take it back from the commit that last had it whole") from None
