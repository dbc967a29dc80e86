"""Parses our own C++ sources with tree-sitter, without errors except for macro calls without a semicolon.

``headers`` reads the headers of other projects. tree-sitter expands no macros and takes one in front of a declaration
for a type, so the macros of our sources are hidden from it. Hiding and replacing text preserves all positions.
"""

from __future__ import annotations

import re
from functools import cache

import tree_sitter_cpp
from tree_sitter import Language, Parser, Tree

LANGUAGE = Language(tree_sitter_cpp.language())
# An attribute macro in front of a declaration or a class name, or after ``typedef`` a macro that expands to ``enum``.
MACRO = re.compile(r"^ *(typedef |class )?([A-Z][A-Z0-9]*_[A-Z]+)(?= \w)", re.MULTILINE)
# The type of a declaration in the condition of a ``for``.
_CONDITION = re.compile(r"(?<=; )\w+\* const (?=\w+ = [^;\n]+; )")
_FOR_C_TOO = re.compile(r"^#ifdef __cplusplus\n(.*?)(?:^#else\n.*?)?^#endif[^\n]*\n", re.MULTILINE | re.DOTALL)


@cache
def parse(text: str) -> Tree:
    """Return the tree of a source, in which each character of the text is one byte."""
    readable = MACRO.sub(_without_macro, code(text))
    readable = _CONDITION.sub(lambda match: " " * len(match[0]), readable)
    return Parser(LANGUAGE).parse(readable.encode("latin-1", "replace"))


def code(text: str) -> str:
    """Return the C++ branch of a text that is also valid C. Every character keeps its position."""

    def first_branch(match: re.Match[str]) -> str:
        before, kept = match.start(1) - match.start(), match[1]
        return _blank(match[0][:before]) + kept + _blank(match[0][before + len(kept) :])

    return _FOR_C_TOO.sub(first_branch, text)


def _without_macro(match: re.Match[str]) -> str:
    before, macro = match[0][: match.start(2) - match.start()], match[2]
    return before + ("enum".ljust(len(macro)) if match[1] == "typedef " else f"[[{'a' * (len(macro) - 4)}]]")


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
