"""Classifies each displayed line: executed, missed, excused, or without information for some reason."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import PurePath

from tree_sitter import Node, Query, QueryCursor

from weaver.sources.cpp_tree import LANGUAGE, parse

# Raise it with every change of this file that sorts a line into another class: earlier results are then stale.
CLASSES = 1
UNMEASURED = "not measured"
CXX = {".cpp", ".h"}
PYTHON = {".py"}
BUILD = {"", ".cmake", ".toml", ".txt"}
EXCUSE = re.compile(r"(?://|#) NOT PROVEN: (?P<reason>\S.*)")
_FUNCTIONS = Query(LANGUAGE, "(function_definition body: (compound_statement) @body) @function")
_CONDITIONS = Query(LANGUAGE, "(preproc_if) @if")
_CXX_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//.*|/\*.*?\*/')
# The parts of a line that do nothing by themselves.
_CXX_FILLING = re.compile(r"[\s{}()\[\];,]|\b(?:else|try|do|default:|public:|private:|protected:|extern \"C\")")


@dataclass
class Listing:
    """The lines of one listing, by class. ``silent`` are those without information, by reason."""

    executed: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    excused: dict[int, str] = field(default_factory=dict)
    silent: dict[str, list[int]] = field(default_factory=dict)


def classify(
    path: str,
    text: list[str],
    shown: range,
    counted: set[int],
    registrations: set[int],
    executed: set[int],
    *,
    script: bool,
    unmeasured: bool = False,
    absent: str = r"(?!)",
) -> Listing:
    """Sorts the lines ``shown`` of a source with the lines ``text``.

    ``counted`` are the lines to which the compiler gave counters, ``registrations`` those that run when the library is
    loaded, ``executed`` those that examples ran; examples run a ``script`` as a whole. Statements of Python are found
    here, one line for each. Code that could be executed and has no counters is missed, unless the build cannot give
    any to this source (``unmeasured``). ``absent`` is a pattern of the conditions that this release does not meet.
    """
    suffix = PurePath(path).suffix
    if suffix in CXX:
        reasons = _cxx_reasons(text, counted, registrations, absent, UNMEASURED if unmeasured else "")
    elif suffix in PYTHON:
        reasons = _python_reasons(text, script=script)
    elif suffix in BUILD:
        reasons = {number: "build file" for number, line in enumerate(text, 1) if _is_filled_build_line(line)}
    else:
        reasons = dict.fromkeys(_cxx_code(text), UNMEASURED if unmeasured else "")
    listing = Listing()
    for number in shown:
        reason = reasons.get(number)
        if reason is None:
            continue
        if number in executed and reason not in {"registration", "import"}:
            listing.executed.append(number)
        elif reason:
            listing.silent.setdefault(reason, []).append(number)
        elif excuse := EXCUSE.search(text[number - 1]):
            listing.excused[number] = excuse["reason"]
        else:
            listing.missed.append(number)
    return listing


def _cxx_code(text: list[str]) -> list[int]:
    """The lines with code: not those with comments, braces or a directive of the preprocessor alone."""
    found = []
    for number, line in enumerate(text, 1):
        code = _CXX_COMMENT.sub(lambda match: '""' if match[0][0] == '"' else " ", line)
        if _CXX_FILLING.sub("", code) and not code.lstrip().startswith("#"):
            found.append(number)
    return found


def _cxx_reasons(
    text: list[str], counted: set[int], registrations: set[int], absent: str, without_counters: str
) -> dict[int, str]:
    """For each line with code: "" where it can be executed, otherwise the reason why it has no information.

    ``without_counters`` is that of the functions that have no counters.
    """
    tree = parse("\n".join(text)).root_node
    others, bodies = _of_other_releases(tree, absent), _uncounted(tree, counted)

    def reason(number: int) -> str:
        if number in registrations:
            return "registration"
        if number in counted:
            return ""
        if number in others:
            return "other release"
        return without_counters if number in bodies else "declaration"

    return {number: reason(number) for number in _cxx_code(text)}


def _uncounted(tree: Node, counted: set[int]) -> set[int]:
    """The lines in bodies of functions without counters, such as those of a template that nothing instantiates.

    Functions that only the compiler can call are left out.
    """
    found: set[int] = set()
    for _, captures in QueryCursor(_FUNCTIONS).matches(tree):
        (function,), (body,) = captures["function"], captures["body"]
        first, last = body.start_point.row + 1, body.end_point.row + 1
        if counted.isdisjoint(range(first, last + 1)) and not _is_consteval(function):
            found.update(range(min(first + 1, last), last + 1))
    return found


def _is_consteval(function: Node) -> bool:
    return any(child.text == b"consteval" for child in function.children)


def _of_other_releases(tree: Node, absent: str) -> set[int]:
    """The lines below an ``#if`` whose whole condition matches the pattern ``absent``."""
    found: set[int] = set()
    for node in QueryCursor(_CONDITIONS).captures(tree).get("if", ()):
        condition, other = node.child_by_field_name("condition"), node.child_by_field_name("alternative")
        if condition is not None and re.fullmatch(absent, (condition.text or b"").decode("latin-1")):
            end = node.end_point if other is None else other.start_point
            found.update(range(condition.end_point.row + 2, end.row + 1))
    return found


def _python_reasons(text: list[str], *, script: bool) -> dict[int, str]:
    """The first line of each statement: "" where examples can execute it, "import" where the import executes it."""
    tree = ast.parse("\n".join(text))
    reasons: dict[int, str] = {}

    def visit(body: list[ast.stmt], reason: str) -> None:
        for position, node in enumerate(body):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, ast.Global | ast.Nonlocal) or (is_text and position == 0):
                continue
            reasons[node.lineno] = reason
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                visit(node.body, "declaration")
                visit(node.orelse, reason)
                continue
            for name in ("body", "orelse", "finalbody"):
                visit(getattr(node, name, []), "" if function else reason)
            for handler in getattr(node, "handlers", []):
                reasons[handler.lineno] = reason
                visit(handler.body, reason)
            for case in getattr(node, "cases", []):
                reasons[case.pattern.lineno] = reason
                visit(case.body, reason)

    visit(tree.body, "" if script else "import")
    return reasons


def _is_filled_build_line(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")
