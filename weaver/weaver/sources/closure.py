"""Which chapter owns which source of the package, and which other sources a set of sources needs.

A source needs what it includes or imports, and what the configuration adds (``[closure]``); a header also needs the
sources that define what it declares. All of this is read from the sources, so there is no list to maintain.

For C++, the lines that begin in the first column suffice, so that a tool needs no parser, which it would have to
install.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from weaver.configuration import Configuration
from weaver.sources.binding import code_files

_OWN = re.compile(r"^```\{whole-sources\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INCLUDE = re.compile(r'#include "([^"]+)"')
# In the first column, since code in a namespace is not indented. For a class, only its name.
_DECLARED = re.compile(
    r"^(?:class|struct)\s+(?:\w+\s+)?(\w+)|^[A-Za-z\[][^;{}=#]*?\b(\w+)\([^;{}]*\)[^;{}]*;", re.MULTILINE
)
_DEFINED = re.compile(r"^[A-Za-z\[][^;{}=#()]*?\b(?:(\w+)::)?~?(\w+)\(", re.MULTILINE)


@dataclass(frozen=True)
class Sources:
    """The sources of a project's package."""

    configuration: Configuration
    edited: Mapping[str, str] = field(default_factory=dict)
    """By path, the text of sources that are to count in another form than they have on the disk."""

    @cached_property
    def texts(self) -> dict[str, str]:
        """The text of each source, by path."""
        root = self.configuration.root
        found = code_files(root, self.configuration.package)
        texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in found}
        return texts | dict(self.edited)

    @cached_property
    def chapters(self) -> dict[str, list[str]]:
        """The sources that each chapter lists as its own, by page name."""
        result = {}
        folder = self.configuration.root / (self.configuration.chapters or self.configuration.pages)
        for page in sorted(folder.glob("*.md")):
            listed = [path for block in _OWN.findall(page.read_text(encoding="utf-8")) for path in block.split()]
            if owned := [path for path in listed if path in self.texts]:
                result[page.stem] = owned
        return result

    def closure(self, wanted: Iterable[str]) -> set[str]:
        """The wanted sources and everything that they need."""
        found: set[str] = set()
        waiting = list(wanted)
        while waiting:
            path = waiting.pop()
            if path not in found:
                found.add(path)
                waiting.extend(self.needed(path))
        return found

    def needed(self, path: str) -> list[str]:
        """What one source needs directly, possibly including itself, and possibly with duplicates."""
        if path not in self._needed:
            self._needed[path] = list(self._read(path))
        return self._needed[path]

    @cached_property
    def _needed(self) -> dict[str, list[str]]:
        return {}

    def _read(self, path: str) -> Iterator[str]:
        text = self.texts[path]
        for name in _INCLUDE.findall(text):
            yield from self._header(path, name)
        if path.endswith(".py"):
            yield from (file for file in _imported(path, text) if file in self.texts)
        if path.endswith(".h"):
            yield from self._defining(path)
        for name in self._used.findall(text):
            yield from self._giving.get(name, ())
        for pattern, needed in self.configuration.closure.companions:
            if (match := re.fullmatch(pattern, path)) and (companion := match.expand(needed)) in self.texts:
                yield companion

    def _header(self, path: str, name: str) -> Iterator[str]:
        for folder in (str(Path(path).parent), *self.configuration.include_folders):
            header = posixpath.normpath(f"{folder}/{name}")
            if header in self.texts:
                yield header
                return

    def _defining(self, header: str) -> Iterator[str]:
        """The sources that include the header and define something that it declares."""
        optional = self.configuration.closure.optional
        declared = {
            name
            for found in _DECLARED.finditer(self.texts[header])
            if not (optional and found[0].startswith(optional))
            for name in found.groups()
            if name
        }
        for path, defined in self._definitions.items():
            if declared & defined and header in self._includes[path]:
                yield path

    @cached_property
    def _definitions(self) -> dict[str, set[str]]:
        return {
            path: {name for pair in _DEFINED.findall(text) for name in pair if name}
            for path, text in self.texts.items()
            if path.endswith(".cpp")
        }

    @cached_property
    def _includes(self) -> dict[str, set[str]]:
        """The headers of each source, but not those of the folder above, which it implements as one more choice."""
        return {
            path: {
                header
                for name in _INCLUDE.findall(self.texts[path])
                if not name.startswith("../")
                for header in self._header(path, name)
            }
            for path in self._definitions
        }

    @cached_property
    def _used(self) -> re.Pattern[str]:
        return re.compile(self.configuration.closure.used, re.MULTILINE)

    @cached_property
    def _giving(self) -> dict[str, list[str]]:
        given = re.compile(self.configuration.closure.given, re.MULTILINE)
        result: dict[str, list[str]] = {}
        for path, text in self.texts.items():
            for name in given.findall(text):
                result.setdefault(name, []).append(path)
        return result


@cache
def _imported(path: str, text: str) -> list[str]:
    """The files that the imports of a source may mean, whether they exist or not."""
    package = Path(path).parent
    result = []
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.parts[: len(package.parts) + 1 - node.level]) if node.level else ""
            stem = ".".join(part for part in (base, node.module) if part)
            names = [stem, *(f"{stem}.{alias.name}" for alias in node.names)]
        for name in names:
            file = name.replace(".", "/")
            result += [f"{file}.py", f"{file}.pyi", f"{file}/__init__.py"]
    return result
