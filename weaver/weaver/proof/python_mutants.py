"""The mutants of Python sources, found in the syntax tree of ``ast``. The operators are those of ``cxx_mutants``.

Not mutated: docstrings, annotations, f-strings, imports, assertions (they detect faults themselves), and code that is
only for type checkers or for running a module as a script.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator
from typing import Any, cast

from weaver.proof.mutants import CHOSEN, Insertion, Source

_OTHER: dict[type[ast.AST], tuple[str, type[ast.AST]]] = {
    ast.Lt: ("boundary", ast.LtE),
    ast.LtE: ("boundary", ast.Lt),
    ast.Gt: ("boundary", ast.GtE),
    ast.GtE: ("boundary", ast.Gt),
    ast.Eq: ("equality", ast.NotEq),
    ast.NotEq: ("equality", ast.Eq),
    ast.Is: ("equality", ast.IsNot),
    ast.IsNot: ("equality", ast.Is),
    ast.In: ("equality", ast.NotIn),
    ast.NotIn: ("equality", ast.In),
    ast.Add: ("arithmetic", ast.Sub),
    ast.Sub: ("arithmetic", ast.Add),
    ast.Mult: ("arithmetic", ast.Div),
    ast.Div: ("arithmetic", ast.Mult),
    ast.FloorDiv: ("arithmetic", ast.Mult),
    ast.Mod: ("arithmetic", ast.Mult),
    ast.Pow: ("arithmetic", ast.Mult),
    ast.BitAnd: ("bits", ast.BitOr),
    ast.BitOr: ("bits", ast.BitAnd),
    ast.LShift: ("shift", ast.RShift),
    ast.RShift: ("shift", ast.LShift),
}
_EQUALITIES = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_SKIPPED = (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert, ast.Global, ast.Nonlocal)
_NAMES = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


def read(path: str, text: bytes, shown: set[int]) -> Source:
    """Finds the mutants that lie entirely on the lines ``shown``."""
    reader = _Reader(Source(path, text), shown)
    reader.visit(ast.parse(text))
    return reader.source


class _Reader:
    """Walks a tree."""

    def __init__(self, source: Source, shown: set[int]) -> None:
        self.source = source
        self.shown = shown
        self.decided: set[ast.expr] = set()
        self.starts = [0, *(at + 1 for at, byte in enumerate(source.text) if byte == 10)]

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, _SKIPPED) or (isinstance(node, ast.If) and _is_aside(node.test)):
            return
        # Other mutants make a whole condition, and each operand of one, true and false.
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            self.decided.add(node.test)
        elif isinstance(node, ast.BoolOp):
            self.decided.update(node.values)
        handle = getattr(self, f"on_{type(node).__name__.lower()}", None)
        if handle is not None:
            handle(node)
        # In -1, the number alone is not mutated; removing the sign is the mutant.
        if not (isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)):
            for child in _children(node):
                self.visit(child)

    def _span(self, node: Any) -> tuple[int, int]:
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _add(self, operator: str, node: Any, after: str, insertions: Iterable[Insertion]) -> None:
        if self.shown.issuperset(range(node.lineno, node.end_lineno + 1)):
            self.source.add(operator, *self._span(node), after, insertions)

    def _choice(self, operator: str, node: ast.expr, alternative: str) -> None:
        """Replaces an expression by another one."""
        start, end = self._span(node)
        around = (
            Insertion(start, f"(({alternative}) if {CHOSEN} else ("),
            Insertion(end, "))", closes=True),
        )
        self._add(operator, node, alternative, around)

    def _removal(self, operator: str, node: ast.stmt) -> None:
        """Skips a statement."""
        start = self._span(node)[0]
        # Only at the beginning of a line: `if x: y()` cannot contain another `if`.
        if not self.source.text[self.starts[node.lineno - 1] : start].strip():
            self._add(operator, node, "pass", [Insertion(start, f"if not {CHOSEN}: ")])

    # Statements.

    def on_expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._removal("statement removed", node)

    def on_assign(self, node: ast.Assign) -> None:
        # A name that is never bound fails at once; a missing store elsewhere may go unnoticed.
        if not any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets):
            self._removal("statement removed", node)

    def on_augassign(self, node: ast.AugAssign) -> None:
        self._removal("statement removed", node)

    on_raise = on_break = on_continue = on_delete = on_augassign

    def on_return(self, node: ast.Return) -> None:
        if node.value is None:
            self._removal("statement removed", node)
        elif not isinstance(node.value, ast.Constant | ast.Compare | ast.BoolOp | ast.BinOp | ast.UnaryOp):
            self._choice("default returned", node.value, "None")

    def on_functiondef(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self._choice("decorator removed", decorator, "lambda decorated: decorated")

    on_classdef = on_asyncfunctiondef = on_functiondef

    def on_with(self, node: ast.With) -> None:
        for item in node.items:
            if item.optional_vars is None:
                self._choice("guard removed", item.context_expr, "__import__('contextlib').nullcontext()")

    def on_if(self, node: ast.If) -> None:
        self._constant_condition(node.test)

    def _constant_condition(self, node: ast.expr) -> None:
        operator = node.op if isinstance(node, ast.BoolOp) else None
        if not isinstance(operator, ast.And):
            self._choice("condition true", node, "True")
        if not isinstance(operator, ast.Or):
            self._choice("condition false", node, "False")

    def on_while(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._choice("condition false", node.test, "False")

    # Expressions.

    def on_ifexp(self, node: ast.IfExp) -> None:
        self._constant_condition(node.test)

    def on_compare(self, node: ast.Compare) -> None:
        for index, operator in enumerate(node.ops):
            decided = node in self.decided and len(node.ops) == 1 and isinstance(operator, _EQUALITIES)
            if type(operator) in _OTHER and not decided:
                name, other = _OTHER[type(operator)]
                changed = copy.copy(node)
                changed.ops = [*node.ops[:index], cast("ast.cmpop", other()), *node.ops[index + 1 :]]
                self._choice(name, node, ast.unparse(changed))

    def on_boolop(self, node: ast.BoolOp) -> None:
        for index in range(len(node.values)):
            changed = ast.BoolOp(node.op, [*node.values[:index], *node.values[index + 1 :]])
            self._choice("operand removed", node, ast.unparse(changed))

    def on_binop(self, node: ast.BinOp) -> None:
        text = any(
            isinstance(side, ast.Constant | ast.JoinedStr) and not _is_number(side) for side in (node.left, node.right)
        )
        if type(node.op) in _OTHER and not text:
            name, other = _OTHER[type(node.op)]
            changed = ast.BinOp(node.left, cast("ast.operator", other()), node.right)
            self._choice(name, node, ast.unparse(changed))

    def on_unaryop(self, node: ast.UnaryOp) -> None:
        if not isinstance(node.op, ast.UAdd) and node not in self.decided:
            self._choice("negation removed", node, ast.unparse(node.operand))

    def on_constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._choice("literal", node, str(not node.value))
        elif _is_number(node):
            self._choice("literal", node, "0" if node.value == 1 else f"{ast.unparse(node)} + 1")

    def on_call(self, node: ast.Call) -> None:
        for index in range(len(node.args) - 1):
            one, other = node.args[index : index + 2]
            if isinstance(one, _NAMES) and isinstance(other, _NAMES) and ast.dump(one) != ast.dump(other):
                arguments = [*node.args[:index], other, one, *node.args[index + 2 :]]
                self._choice("arguments swapped", node, ast.unparse(ast.Call(node.func, arguments, node.keywords)))


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _is_aside(test: ast.expr) -> bool:
    """Whether a condition is only true for type checkers, or when a module runs as a script."""
    text = ast.unparse(test)
    return text in {"TYPE_CHECKING", "typing.TYPE_CHECKING"} or text.startswith("__name__ ==")


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The children that run, in the order of the text: no annotations."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "type_comment", "type_params"}:
            continue
        yield from (child for child in (value if isinstance(value, list) else [value]) if isinstance(child, ast.AST))
