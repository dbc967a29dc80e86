"""Minimizes a program that fails: fewer lines, then simpler ones, as long as it fails in the same way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

from tests.fuzz.program import NAME, Program

Fails = Callable[[Program], bool]

_TENSOR = re.compile(r"torch\.tensor\((\[[^=]*\]|[^][,=]+), ")
# Parts of a line that may be superfluous.
_SUPERFLUOUS = (
    re.compile(r", (?!dtype|device|out|copy)\w+=[^=,()]+(?=[,)])"),
    re.compile(r"\.(?:clone|contiguous|requires_grad_|t|squeeze|conj)\(\)"),
    re.compile(r", dtype=torch\.\w+"),
    re.compile(r"\.as_strided\([^()]*\([^()]*\)[^()]*\([^()]*\)[^()]*\)"),
)


def minimized(program: Program, fails: Fails, seconds: float) -> Program:
    """The smallest failing program found in that time. Requires: ``program`` itself fails."""
    until = time.monotonic() + seconds

    def still(candidate: Program) -> bool:
        return time.monotonic() < until and fails(candidate)

    before = None
    while before != program:
        before = program
        program = _shorter(program, still)
        program = _on_one_stream(program, still)
        program = _simpler(program, still)
    return program


def _shorter(program: Program, fails: Fails) -> Program:
    length = max(len(program.statements) // 2, 1)
    while True:
        begin = len(program.statements)
        while begin > 0:
            begin = max(begin - length, 0)
            candidate = program.without(begin, begin + length)
            if candidate.statements and fails(candidate):
                program = candidate
        if length == 1:
            return program
        length //= 2


def _on_one_stream(program: Program, fails: Fails) -> Program:
    candidate = program.on_one_stream()
    return candidate if candidate != program and fails(candidate) else program


def _simpler(program: Program, fails: Fails) -> Program:
    for index in range(len(program.statements)):
        is_simpler = True
        while is_simpler:
            is_simpler = False
            for code in _variants(program.statements[index].code):
                candidate = program.with_code(index, code)
                if fails(candidate):
                    program, is_simpler = candidate, True
                    break
    return program


def _variants(code: str) -> Iterator[str]:
    """Simpler variants of a line, each of which is shorter or has more ones."""
    for pattern in _SUPERFLUOUS:
        for match in pattern.finditer(code):
            yield code[: match.start()] + code[match.end() :]
    for match in _TENSOR.finditer(code):
        flat = re.sub(r"nan|-?inf|True|False|-?\d[\d.]*(?:[+-]\d+j)?", "1", match[1])
        if flat != match[1]:
            yield code[: match.start(1)] + flat + code[match.end(1) :]
        for shorter in _fewer(match[1]):
            yield code[: match.start(1)] + shorter + code[match.end(1) :]


def _fewer(literal: str) -> Iterator[str]:
    """The first half of the rows of a nested list, and the first half of its columns."""
    if not literal.startswith("[") or NAME.search(literal):
        return
    rows = re.findall(r"\[[^][]*\]", literal)
    if literal.count("[") == len(rows) + 1 and len(rows) > 1:
        yield f"[{', '.join(rows[: (len(rows) + 1) // 2])}]"
    if literal.count("[") <= len(rows) + 1 and rows:
        widths = [row[1:-1].split(", ") for row in rows]
        if len(widths[0]) > 1:
            kept = [f"[{', '.join(width[: (len(width) + 1) // 2])}]" for width in widths]
            yield kept[0] if literal.count("[") == 1 else f"[{', '.join(kept)}]"
