"""The maps of csrc: a README.md in a folder, whose table names each file there and in subfolders without a map.

Also its notes: comments with a title, by which other files refer to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

MAP = "README.md"
_ROW = re.compile(r"^\| [`\[].*\|$", re.MULTILINE)
# A file or folder, or the map of one, as the target of a link.
_NAME = re.compile(r"`([\w./]+)`|\]\(([\w./]+)\)")
# A list item that names files with their folders: a walk through the code.
_ITEM = re.compile(r"^- .*\n(?:  .*\n)*", re.MULTILINE)
_WALKED = re.compile(r"`(\w+/[\w./]+\.\w+)`")
# A note gives the reason for what several files do. It begins with its title on a separate line.
_NOTE = re.compile(r"^// Note \[([^\]]+)\]$", re.MULTILINE)
_NOTE_NAMED = re.compile(r"\bNote \[([^\]]+)\](?! in ATen/)")


def named(text: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of the tables of files, and the names in the first cell of each."""
    for row in _ROW.findall(text):
        yield row, [name or link for name, link in _NAME.findall(row.split("|")[1])]


def without(text: str, folder: str, has: Callable[[str], bool]) -> str:
    """A map of a folder without the files and folders that do not exist.

    A row with no names left is removed, and so is a list item that names a missing file.
    """
    for row, names in named(text):
        kept = [name for name in names if has(f"{folder}/{name}")]
        if not kept:
            text = text.replace(f"{row}\n", "")
        elif kept != names:
            cells = row.split("|")
            text = text.replace(row, "|".join([cells[0], f" {', '.join(f'`{name}`' for name in kept)} ", *cells[2:]]))
    return "".join(part for part in _parts(text) if all(has(f"{folder}/{name}") for name in _walked(part)))


def _parts(text: str) -> Iterator[str]:
    """The list items, and the text between them."""
    end = 0
    for item in _ITEM.finditer(text):
        yield from (text[end : item.start()], item.group())
        end = item.end()
    yield text[end:]


def _walked(part: str) -> list[str]:
    return _WALKED.findall(part) if _ITEM.fullmatch(part) else []


def faults(files: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each file of csrc that is in no map, and for each name in a map without a file.

    ``files`` has the text of each map by its path, and any text for other files.
    """
    maps = {str(Path(path).parent): text for path, text in files.items() if Path(path).name == MAP}
    for path in sorted(files):
        if Path(path).name in (MAP, "CMakeLists.txt"):
            continue
        parents = [str(parent) for parent in Path(path).parents]
        home = next((parent for parent in parents if parent in maps), None)
        if home is None:
            yield f"{path}: neither its folder nor one above has a {MAP} that names its files"
            continue
        known = {name for _, names in named(maps[home]) for name in names}
        inside = path.removeprefix(f"{home}/")
        if not _knows(known, inside):
            yield f"{home}/{MAP}: does not say what {inside} is"
    for folder, text in sorted(maps.items()):
        for _, names in named(text):
            for name in names:
                path = f"{folder}/{name}"
                if path not in files and not any(file.startswith(path) for file in files if path.endswith("/")):
                    yield f"{folder}/{MAP}: there is no {name}"
        for name in (name for part in _parts(text) for name in _walked(part)):
            if f"{folder}/{name}" not in files:
                yield f"{folder}/{MAP}: there is no {name}"


def unwritten_notes(files: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each ``Note [Title]`` that a comment refers to and no file of ``files`` contains.

    A reference to a note of PyTorch also names its file: "Note [Title] in ATen/core/Generator.h".
    """
    written = {title for text in files.values() for title in _NOTE.findall(text)}
    for path, text in sorted(files.items()):
        comments = re.sub(r"\n *// ?", " ", text)
        for title in _NOTE_NAMED.findall(comments):
            if title not in written:
                yield f"{path}: there is no Note [{title}]"


def _knows(names: set[str], file: str) -> bool:
    """Whether the names include a file, or a folder that contains it and none of whose files is named itself."""
    folders = (name for name in names if name.endswith("/") and file.startswith(name))
    whole = (name for name in folders if not any(other.startswith(name) and other != name for other in names))
    return file in names or any(whole)
