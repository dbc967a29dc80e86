"""Reads the virtual member functions of a class from a C++ header of another project.

Not a C++ parser: comments, strings and preprocessor lines are blanked, the class body is split into declarations at its
own depth, and of each declaration with ``virtual`` or ``override`` the name before the parameters is taken.

``cpp_tree`` would be shorter, but is for our own sources. A parser does not know the macros of another project:
tree-sitter finds errors in all nine PyTorch headers whose interfaces a backend implements, and a function that it
misreads would be lost silently. Also, this works for a tool where no parser is installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOISE = re.compile(
    r"""
    //[^\n]* | /\*.*?\*/                                    # comments
    | R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"            # raw strings
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)'              # strings, characters
    | ^[ \t]*\#(?:[^\n\\]|\\.)*(?:\\\n(?:[^\n\\]|\\.)*)*    # preprocessor lines, continued ones too
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_NAME = re.compile(r"(~?\s*[A-Za-z_]\w*|operator\s*(?:\(\s*\)|[^\s(]+|\s\w+))\s*$")
_PADDING = re.compile(r"(?<=\() | (?=[,)])")
_VIRTUAL = re.compile(r"\bvirtual\b|\)[^()]*\b(?:override|final)\b")


@dataclass(frozen=True)
class Method:
    """A virtual member function, the line of its declaration, counted from 1, and its text without the body."""

    name: str
    line: int
    declaration: str


def virtual_methods(text: str, class_name: str) -> list[Method]:
    """Return the virtual member functions of a class in order, without its destructor, one entry per overload.

    Throws: ``LookupError`` when the header does not define the class.
    """
    clean = _NOISE.sub(_blank, text)
    # Macros and attributes may precede the name, and base classes follow it.
    head = rf"\b(?:class|struct)\b(?:[^;{{}}()]|\([^()]*\))*?\b{re.escape(class_name)}\b\s*(?:final\s*)?(?::[^;{{]*)?{{"
    match = re.search(head, clean)
    if match is None:
        raise LookupError(f"the header defines no class {class_name}")
    methods = []
    for start, declaration in _declarations(clean, match.end()):
        if _VIRTUAL.search(declaration) and "(" in declaration:
            begin = re.search(r"\bvirtual\b", declaration)
            part = declaration[begin.end() if begin else 0 :]
            name = _NAME.search(part[: _parameters(part)])
            if name and "~" not in name[1]:
                at = start + (begin.end() if begin else 0) + name.start(1)
                text = _PADDING.sub("", " ".join(declaration.split()))
                methods.append(Method(name[1].strip(), clean.count("\n", 0, at) + 1, text))
    return methods


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _parameters(declaration: str) -> int:
    """Return the start of the parameter list: the first parenthesis outside template arguments and attributes."""
    depth = 0
    for index, sign in enumerate(declaration):
        if sign in "<[":
            depth += 1
        elif sign in ">]":
            depth -= 1
        elif sign == "(" and depth <= 0:
            call = re.match(r"\(\s*\)\s*\(", declaration[index:])
            if call and declaration[:index].rstrip().endswith("operator"):
                return index + call.end() - 1
            return index
    return len(declaration)


def _declarations(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield the declarations of a class body that begins at ``start``, without function bodies, with positions."""
    depth = 0
    begin = start
    for index in range(start, len(text)):
        sign = text[index]
        if sign in "{(":
            if sign == "{" and depth == 0:
                yield begin, text[begin:index]
            depth += 1
        elif sign in "})":
            depth -= 1
            if depth < 0:
                return
            if sign == "}" and depth == 0:
                begin = index + 1
        elif depth == 0 and sign == ";":
            yield begin, text[begin:index]
            begin = index + 1
        elif depth == 0 and sign == ":" and re.search(r"\b(?:public|protected|private)\s*$", text[begin:index]):
            begin = index + 1
