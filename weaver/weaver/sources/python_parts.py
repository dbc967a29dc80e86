"""The parts of a Python file: its statements, and its imports, name by name."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Collection, Iterator

from weaver.sources.parts import Part

Import = ast.Import | ast.ImportFrom


def parts(text: str) -> Iterator[Part]:
    """Yield the statements of a file without its docstring. Statements that only import have no names here."""
    lines = text.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    start = 0
    for node in ast.parse(text).body:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        body, end = begins[first - 1], begins[node.end_lineno or node.lineno]
        if _imports(node):
            yield Part(start, body, end, frozenset(), frozenset())
        elif not _is_docstring(node):
            yield Part(start, body, end, frozenset(given(node)), frozenset(used(text[body:end])))
        start = end


def imports(text: str, names: Collection[str]) -> str:
    """Return the imports of the file that give some names, reduced to these names."""
    kept: list[str] = []
    last, apart = 0, False
    body = ast.parse(text).body
    if any(_kept(one, names) for node in body if _guarded(node) for one in _imports(node)):
        names = {*names, "TYPE_CHECKING"}
    for node in body:
        apart = apart or node.lineno > last + 1
        if lines := [line for one in _imports(node) for line in _kept(one, names)]:
            kept += [""] if kept and apart else []
            apart = False
            kept += [ast.unparse(node).splitlines()[0], *(f"    {line}" for line in lines)] if _guarded(node) else lines
        last = node.end_lineno or node.lineno
    return "".join(f"{line}\n" for line in kept)


def used(text: str) -> set[str]:
    """Return the names that statements use and do not import, including their own definitions and builtins."""
    imported = {name for node in ast.parse(text).body for one in _imports(node) for name in given(one)}
    waiting = [symtable.symtable(text, "", "exec")]
    found: set[str] = set()
    while waiting:
        table = waiting.pop()
        waiting.extend(table.get_children())
        module = table.get_type() == "module"
        found |= {
            name.get_name() for name in table.get_symbols() if name.is_referenced() and (module or name.is_global())
        }
    return found - imported


def given(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement defines or imports."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            yield one.id
        elif isinstance(one, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler):
            yield from [one.name] if one.name else []
        elif isinstance(one, Import):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in one.names)


def _imports(node: ast.stmt) -> list[Import]:
    """The imports of a statement that does nothing else."""
    body = node.body if isinstance(node, ast.If) and _guarded(node) else [node]
    found = [one for one in body if isinstance(one, Import)]
    return found if len(found) == len(body) else []


def _guarded(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _kept(node: Import, names: Collection[str]) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return [ast.unparse(node)]
    aliases = [alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) in names]
    if not aliases:
        return []
    if isinstance(node, ast.Import):
        return [ast.unparse(ast.Import(aliases))]
    return [ast.unparse(ast.ImportFrom(node.module, aliases, node.level))]


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
