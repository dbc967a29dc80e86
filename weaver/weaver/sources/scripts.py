"""The scripts that examples run, and the other files of the project that these compile, import or start.

An example that runs a script is the same example only while the script is: a check that it loses, the page loses too.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from weaver.sources.binding import code, code_digest, is_built

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weaver.configuration import Configuration

_PATH = re.compile(r"\w[\w.-]*(?:/[\w.-]+)*")
_MODULE = re.compile(
    r"(?:\bfrom\s+(?P<package>[\w. ]+?)\s+)?\bimport\s+(?:\((?P<several>[\w.,\s]+)|(?P<names>[\w., ]+))"
    r"|\bimport_module\s*\(\s*[\"'](?P<named>[\w.]+)"
)
_BESIDE = re.compile(r"\bwith_suffix\s*\(\s*[\"'](\.\w+)")
_OTHER_FOLDERS = {"__pycache__", "build"}
_PROSE = {".md", ".rst"}


class Scripts:
    """The files below ``executed`` that examples run. It reads each once, so that it is valid for one build."""

    def __init__(self, configuration: Configuration) -> None:
        self.root = configuration.root
        self.executed = configuration.executed
        self.read: set[str] = set()
        self._named: dict[tuple[str, str], set[str]] = {}
        self._by_file: dict[str, set[str]] = {}
        self._digests: dict[str, str] = {}

    def run_by(self, source: str) -> dict[str, str]:
        """Return the files that the code of an example names or imports, and those that these do, with their digests.

        A name counts wherever it stands: what a script only mentions is one file too many, and no file is missed.
        """
        found: set[str] = set()
        waiting = self._names(source)
        while waiting:
            path = waiting.pop()
            if path not in found:
                found.add(path)
                waiting |= self._names_of(path)
        self.read |= found
        return {path: self._digest(path) for path in sorted(found)}

    def _digest(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = code_digest(self.root / path)
        return self._digests[path]

    def _names_of(self, path: str) -> set[str]:
        if path not in self._by_file:
            text = code(self.root / path)
            beside = {PurePosixPath(path).with_suffix(suffix).as_posix() for suffix in _BESIDE.findall(text)}
            self._by_file[path] = (self._names(text, path) | beside & self._files) - {path}
        return self._by_file[path]

    @cached_property
    def _files(self) -> set[str]:
        """All files below ``executed``, except prose and what a build leaves there."""
        found = {entry for entry in self.executed if (self.root / entry).is_file()}
        for entry in self.executed:
            for folder, subfolders, names in os.walk(self.root / entry):
                subfolders[:] = [name for name in subfolders if name not in _OTHER_FOLDERS and name[0] != "."]
                within = PurePosixPath(os.path.relpath(folder, self.root))
                found |= {(within / name).as_posix() for name in names if name[0] != "." and not is_built(name)}
        return {path for path in found if PurePosixPath(path).suffix not in _PROSE}

    @cached_property
    def _folders(self) -> dict[str, set[str]]:
        """The files in each folder below ``executed``, at any depth."""
        folders: dict[str, set[str]] = {}
        for path in self._files:
            for folder in PurePosixPath(path).parents:
                folders.setdefault(folder.as_posix(), set()).add(path)
        # An example that names the folder of all scripts runs one of them, and names that, too.
        for entry in self.executed:
            for folder in (PurePosixPath(entry), *PurePosixPath(entry).parents):
                folders.pop(folder.as_posix(), None)
        return folders

    def _names(self, text: str, path: str = "") -> set[str]:
        """The files that a text names; ``path`` is its own, for what it names relative to it."""
        own = [folder.as_posix() for folder in PurePosixPath(path).parents] if path else ["."]
        bases = [PurePosixPath(folder) for folder in dict.fromkeys((*own, *self.executed))]
        found: set[str] = set()
        for name in {match.rstrip(".") for match in _PATH.findall(text)}:
            for base in bases:
                file = (base / name).as_posix()
                found |= self._folders.get(file, set()) | ({file} & self._files)
        for module in _modules(text):
            found |= self._module(module, bases)
        return found

    def _module(self, module: str, bases: list[PurePosixPath]) -> set[str]:
        """The files of a module and of the packages that contain it; relative to the first base with dots before it."""
        absolute = module.lstrip(".")
        if dots := len(module) - len(absolute):
            bases = bases[dots - 1 : dots]
        parts = absolute.split(".") if absolute else []
        found = set()
        for base in bases:
            for count in range(1, len(parts) + 1):
                at = base.joinpath(*parts[:count])
                found |= {f"{at}.py", f"{at}/__init__.py"} & self._files
        return found


def _modules(text: str) -> Iterator[str]:
    """Yield the names of the modules that a text imports, and what it imports from them: that may be modules, too."""
    for match in _MODULE.finditer(text):
        if match["named"]:
            yield match["named"]
            continue
        package = (match["package"] or "").replace(" ", "")
        if package:
            yield package
        for name in (match["several"] or match["names"]).split(","):
            module = re.sub(r"\s", "", name.split(" as ")[0])
            yield f"{package}{'.' if package.strip('.') else ''}{module}" if package else module
