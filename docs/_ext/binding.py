"""What a measurement is bound to: the code that ran, the pages that ran it, and the release of torch underneath.

A measurement of other code, of other examples or of another torch says nothing about what a page shows now. Prose is
not part of the binding: a corrected sentence makes no measurement stale.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs._ext.regions import read_lines
from docs._ext.torch_files import torch_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from docs._ext.records import Listing

__all__ = ["code_digest", "code_files", "page_digest", "region_digest", "torch_version"]

# What a build reads and an example runs. The tests are not among it: what a page shows of them is in its own digest.
_CODE = (
    "csrc",
    "torch_openreg",
    "torch_openreg_autoload.py",
    "examples",
    "CMakeLists.txt",
    "cmake",
    "pyproject.toml",
)
_OTHER_FOLDERS = {"__pycache__", "lib", "tests"}
_BUILT_FILES = {"_build_info.py"}
_BUILT_SUFFIXES = {".so", ".pyc"}


def code_digest(root: Path) -> str:
    """Return the hash of the names and texts of all files that a build reads or an example runs."""
    digest = sha256()
    for file in code_files(root, _CODE):
        name = file.relative_to(root).as_posix().encode()
        text = file.read_bytes()
        digest.update(b"%d %s %d " % (len(name), name, len(text)))
        digest.update(text)
    return digest.hexdigest()


def code_files(root: Path, entries: Iterable[str]) -> Iterator[Path]:
    """Yield the files of ``entries``, files and folders below ``root``, in a stable order.

    What a build or an editor leaves among them is not part of it, and neither are their tests.
    """
    for entry in entries:
        if (root / entry).is_file():
            yield root / entry
        for folder, subfolders, names in os.walk(root / entry):
            subfolders[:] = sorted(name for name in subfolders if name not in _OTHER_FOLDERS and name[0] != ".")
            for name in sorted(names):
                left_over = name[0] == "." or name[-1] == "~"
                built = name in _BUILT_FILES or Path(name).suffix in _BUILT_SUFFIXES
                if not (left_over or built):
                    yield Path(folder, name)


def page_digest(blocks: Iterable[Mapping[str, Any]], listings: Iterable[Listing], root: Path) -> str:
    """Return the hash of what a page runs and what it shows of the sources below ``root``.

    ``blocks`` are its executed blocks as ``asdict`` gives them. No line number counts, neither of the page nor of a
    source, so what moves without a change keeps its hash.
    """
    run = [
        [block["kind"], block["group"], [[step["source"], step["want"], step["status"]] for step in block["steps"]]]
        for block in blocks
    ]
    shown = [[listing.path, listing.region, _text(listing, root)] for listing in listings]
    return sha256(json.dumps([run, shown]).encode()).hexdigest()


def region_digest(listing: Listing, pages: Iterable[str], root: Path) -> str:
    """Return the hash to which the mutants of a listing are bound.

    It is made of the text shown, of the digests of the ``pages`` that show it, whose examples are to kill the mutants,
    and of the release of torch.
    """
    return sha256(json.dumps([_text(listing, root), sorted(pages), torch_version()]).encode()).hexdigest()


def _text(listing: Listing, root: Path) -> list[str]:
    return read_lines(root / listing.path)[listing.first - 1 : listing.last]
