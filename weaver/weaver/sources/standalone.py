"""Makes the code of a listing self-contained, with its includes or imports and what it needs from its file.

A part of a file (a function, a class or a statement) is taken whole or not at all: a member needs its class.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from weaver.sources import cpp_parts, cpp_tree, python_parts
from weaver.sources.parts import Part, joined, needed, overlapping
from weaver.sources.regions import language_of, without_marks


@dataclass(frozen=True)
class Standalone:
    """A text to copy, and what it adds to the listing: ``includes``, ``imports``, and parts, by their ``names``."""

    text: str
    includes: int = 0
    imports: int = 0
    names: tuple[str, ...] = ()


def standalone(path: str, text: str, first: int, last: int, origin: str) -> Standalone:
    """Return the text to copy for lines ``first`` to ``last`` of a file; an extended one begins with ``origin``.

    A listing of a whole file, one with includes of its own, or one without code, is not extended.
    """
    lines = text.splitlines(keepends=True)
    start, end = (len("".join(lines[:count])) for count in (first - 1, last))
    shown = text[start:end]
    kind = language_of(Path(path))
    whole = first == 1 and last == len(lines)
    made = None
    if kind == "python" and not whole:
        made = _of_python(path, text, start, end, origin)
    elif kind == "cpp" and not whole and "#include" not in shown:
        made = _of_cpp(path, text, start, end, origin)
    return made or Standalone(without_marks(path, shown))


def _of_cpp(path: str, text: str, start: int, end: int, origin: str) -> Standalone | None:
    code = cpp_tree.code(text)
    parts = cpp_parts.parts(code)
    shown = overlapping(parts, start, end)
    if not shown:
        return None
    taken = needed(parts, shown)
    included = cpp_parts.includes(text)
    head = "".join(f"{line}\n" for line in (f"// {origin}", *included))
    body = re.sub(r"[ \t]+$", "", "".join(joined(code, taken)), flags=re.MULTILINE)
    copied = without_marks(path, f"{head}\n{body}")
    return Standalone(copied, includes=sum(map(bool, included)), names=_besides(taken, start, end))


def _of_python(path: str, text: str, start: int, end: int, origin: str) -> Standalone | None:
    parts = list(python_parts.parts(text))
    taken = needed(parts, overlapping(parts, start, end))
    code = "".join(joined(text, taken))
    imported = python_parts.imports(text, python_parts.used(code))
    if not imported and all(start <= part.body and part.end <= end for part in taken):
        return None
    copied = without_marks(path, f"# {origin}\n{imported}{code}")
    count = sum(line.lstrip().startswith(("from ", "import ")) for line in imported.splitlines())
    return Standalone(copied, imports=count, names=_besides(taken, start, end))


def _besides(taken: list[Part], start: int, end: int) -> tuple[str, ...]:
    """The names of the parts that are not entirely in the listing."""
    parts = [part for part in taken if not (start <= part.body and part.end <= end)]
    return tuple(dict.fromkeys(min(part.names) for part in parts if part.names))
