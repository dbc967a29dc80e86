"""Classifies each displayed line: executed, missed, excused, or without information for some reason."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import PurePath

from tree_sitter import Query, QueryCursor

from weaver.sources.cpp_tree import LANGUAGE, parse

CXX = {".cpp", ".h"}
PYTHON = {".py"}
EXCUSE = re.compile(r"(?://|#) NOT PROVEN: (?P<reason>\S.*)")
_BODIES = Query(LANGUAGE, "(template_declaration (function_definition body: (compound_statement) @body))")
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
) -> Listing:
    """Sorts the lines ``shown`` of a source with the lines ``text``.

    ``counted`` are the lines to which the compiler gave counters, ``registrations`` those that run when the library is
    loaded, ``executed`` those that examples ran; examples run a ``script`` as a whole. Statements of Python are found
    here, one line for each.
    """
    suffix = PurePath(path).suffix
    if suffix in CXX:
        reasons = _cxx_reasons(text, counted, registrations)
    elif suffix in PYTHON:
        reasons = _python_reasons(text, script=script)
    else:
        reasons = {number: "build file" for number, line in enumerate(text, 1) if _is_filled_build_line(line)}
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


def _cxx_reasons(text: list[str], counted: set[int], registrations: set[int]) -> dict[int, str]:
    """For each line with code: "" where it can be executed, otherwise the reason why it has no information."""
    reasons: dict[int, str] = {}
    bodies = _uninstantiated(text, counted)
    for number, line in enumerate(text, 1):
        code = _CXX_COMMENT.sub(lambda match: '""' if match[0][0] == '"' else " ", line)
        if not _CXX_FILLING.sub("", code) or code.lstrip().startswith("#"):
            continue
        if number in registrations:
            reasons[number] = "registration"
        elif number in counted or number in bodies:
            reasons[number] = ""
        else:
            reasons[number] = "declaration"
    return reasons


def _uninstantiated(text: list[str], counted: set[int]) -> set[int]:
    """The lines in bodies of function templates that nothing instantiates, for which the compiler emits no code."""
    bodies = QueryCursor(_BODIES).captures(parse("\n".join(text)).root_node).get("body", ())
    lines = (range(body.start_point.row + 2, body.end_point.row + 2) for body in bodies)
    return {number for body in lines if counted.isdisjoint(body) for number in body}


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

    visit(tree.body, "" if script else "import")
    return reasons


def _is_filled_build_line(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")
