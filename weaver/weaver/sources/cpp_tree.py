"""C++ as tree-sitter reads it: our own sources, without errors but for macro calls that end without a semicolon.

Headers of another project are read otherwise (``headers``). tree-sitter expands no macro and takes one in front of a
declaration for a type, so that here those of our sources are hidden from it. What is hidden or replaced stays in place.
"""

from __future__ import annotations

import re
from functools import cache

import tree_sitter_cpp
from tree_sitter import Language, Parser, Tree

LANGUAGE = Language(tree_sitter_cpp.language())
# A macro of attributes in front of a declaration or of the name of a class, or behind ``typedef`` one that stands for
# ``enum``.
MACRO = re.compile(r"^ *(typedef |class )?([A-Z][A-Z0-9]*_[A-Z]+)(?= \w)", re.MULTILINE)
# The type of what the condition of a ``for`` declares.
_CONDITION = re.compile(r"(?<=; )\w+\* const (?=\w+ = [^;\n]+; )")
_FOR_C_TOO = re.compile(r"^#ifdef __cplusplus\n(.*?)(?:^#else\n.*?)?^#endif[^\n]*\n", re.MULTILINE | re.DOTALL)


@cache
def parse(text: str) -> Tree:
    """Return the tree of a source, in which each character of the text is one byte."""
    readable = MACRO.sub(_without_macro, code(text))
    readable = _CONDITION.sub(lambda match: " " * len(match[0]), readable)
    return Parser(LANGUAGE).parse(readable.encode("latin-1", "replace"))


def code(text: str) -> str:
    """Return the text as C++ has it where it serves C too. Every character stands where it stood."""

    def first_branch(match: re.Match[str]) -> str:
        before, kept = match.start(1) - match.start(), match[1]
        return _blank(match[0][:before]) + kept + _blank(match[0][before + len(kept) :])

    return _FOR_C_TOO.sub(first_branch, text)


def _without_macro(match: re.Match[str]) -> str:
    before, macro = match[0][: match.start(2) - match.start()], match[2]
    return before + ("enum".ljust(len(macro)) if match[1] == "typedef " else f"[[{'a' * (len(macro) - 4)}]]")


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
