"""The states of a growing backend, from `states.toml`: the sources of each, and their text where it differs.

Files that assemble a backend, such as its `__init__.py`, name parts of later states, and are written without them.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from environment import Fault
from weaver.configuration import load
from weaver.sources.closure import Sources
from weaver.sources.regions import without_region

_FILE = Path("tools", "vendor", "states.toml")
_DRIVER = "csrc/driver/"
_OTHER_DRIVERS = ("csrc/driver/minimal/", "csrc/driver/opencl/")
_KERNELS = "csrc/kernels/"
_STUB = "torch_openreg/_C.pyi"
_BINDINGS = "csrc/python/"
_BOUND = re.compile(r'\bm(?:\.def\(|, )"(\w+)"')
_BLANK_LINES = re.compile(r"\n{3,}")
_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)
_HOST_KERNELS = re.compile(r'^(option\(HOST_KERNELS "[^"]*") ON\)', re.MULTILINE)
_EVERY_CHAPTER = "*"
Has = Callable[[str], bool]


@dataclass(frozen=True)
class State:
    """What one state adds to the previous one. ``chapters`` stand for their sources.

    ``areas`` of the conformance kit are checked from this state on.
    """

    number: int
    title: str
    adds: str
    sources: tuple[str, ...] = ()
    chapters: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    areas: tuple[str, ...] = ()
    kernels: bool = False


def _state(number: int, row: dict[str, Any]) -> State:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return State(number, **values)


class States:
    """All states of one tree of sources."""

    def __init__(self, root: Path) -> None:
        self._root = root
        table = tomllib.loads((root / _FILE).read_text(encoding="utf-8"))
        self._assembled: dict[str, dict[str, str]] = table["assembled"]
        self.programs: dict[str, str] = table["programs"]
        self.all = [_state(number, row) for number, row in enumerate(table["state"], start=1)]

    def __getitem__(self, number: int) -> State:
        """Raises: ``Fault``, which names the existing states."""
        if not 1 <= number <= len(self.all):
            known = ", ".join(f"{state.number} ({state.title})" for state in self.all)
            raise Fault(f"STATE={number}: there is no such state; there are {known}")
        return self.all[number - 1]

    def until(self, number: int) -> list[State]:
        """A state and all before it."""
        return self.all[: self[number].number]

    def chapters(self, number: int) -> list[str] | None:
        """The chapters whose sources are complete at a state; None means all of them."""
        named = [chapter for state in self.until(number) for chapter in state.chapters]
        return None if _EVERY_CHAPTER in named else named

    def early(self, number: int) -> Early:
        """The files of a state without kernels."""
        return Early(self._root, self.until(number), self._assembled)


class Early:
    """The files of a state that has no kernels yet: its sources, with everything that they need, and nothing else."""

    def __init__(self, root: Path, states: list[State], assembled: dict[str, dict[str, str]]) -> None:
        self._root, self._states, self._assembled = root, states, assembled

    @cached_property
    def taken(self) -> set[str]:
        """The sources. Those that assemble the backend do not need what they name."""
        configuration = load(self._root)
        kernels = [path for path in Sources(configuration).texts if path.startswith(_KERNELS)]
        sources = Sources(configuration, dict.fromkeys((*self._assembled, _STUB, *kernels), ""))
        wanted = {path for path in sources.texts if path.startswith(_DRIVER) and not path.startswith(_OTHER_DRIVERS)}
        for state in self._states:
            wanted.update(state.sources, *(sources.chapters[chapter] for chapter in state.chapters))
        return {path for path in sources.closure(wanted) if not path.startswith(_KERNELS)} | {_STUB}

    def has_test(self, path: str) -> bool:
        """Whether a file of the tests is included."""
        return any(path.startswith(test) for state in self._states for test in state.tests)

    def cut(self, path: str, text: str, has: Has) -> str:
        """The text of a file without the names of what the state does not have."""
        if path == "CMakeLists.txt":
            return _HOST_KERNELS.sub(r"\1 OFF)", text)
        if path == _STUB:
            shorter = _without_lines(text, _unbound(text, self._bound()))
            return _BLANK_LINES.sub("\n\n", _without_lines(shorter, _unused(shorter)))
        if path not in self._assembled:
            return text
        for region, needed in self._assembled[path].items():
            if not has(needed):
                text = _without(path, text, region)
        if path.endswith(".py"):
            return _without_lines(text, _unimported(text, lambda module: self._has_module(module, has)))
        return _INCLUDE.sub(lambda line: line[0] if has(f"csrc/{line[1]}") else "", text)

    def _bound(self) -> set[str]:
        """The functions and classes of the extension module."""
        files = (self._root / path for path in self.taken if path.startswith(_BINDINGS))
        return {name for file in files for name in _BOUND.findall(file.read_text(encoding="utf-8"))}

    def _has_module(self, module: str, has: Has) -> bool:
        """Whether a module is there. Those of other packages are, and so is a name that is not a module."""
        file = module.replace(".", "/")
        ours = [path for path in (f"{file}.py", f"{file}/__init__.py") if (self._root / path).is_file()]
        return not ours or any(has(path) for path in ours)


def _without(path: str, text: str, region: str) -> str:
    """Raises: ``Fault``, if the file has no such region, since it would name what is not there."""
    shorter = without_region(text, region)
    if shorter == text:
        raise Fault(f"{_FILE}: {path} has no region {region}")
    return shorter


def _unimported(text: str, has: Callable[[str], bool]) -> Iterator[ast.AST]:
    """The imports of absent modules and, at the top level, their names in `__all__` and their calls."""
    gone: set[str] = set()
    for node in ast.parse(text).body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                absent = [alias for alias in names if not (has(module) and has(f"{module}.{alias.name}"))]
                gone.update(alias.asname or alias.name for alias in absent)
                if len(absent) == len(names):
                    yield node
                else:
                    yield from absent
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in gone:
                yield node
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=exported)):
                yield from (each for each in exported if ast.literal_eval(each) in gone)


def _unbound(text: str, bound: set[str]) -> Iterator[ast.AST]:
    """The functions and classes of a stub that the extension module lacks. It never has typed dictionaries."""
    for node in ast.parse(text).body:
        match node:
            case ast.ClassDef(bases=[ast.Name(id="TypedDict")]):
                continue
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if name not in bound:
                yield node


def _unused(text: str) -> Iterator[ast.AST]:
    """The statements of a stub that import one name, if nothing uses it."""
    body = ast.parse(text)
    used = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
    for node in body.body:
        match node:
            case ast.ImportFrom(names=[ast.alias(name=name)]) if name not in used:
                yield node


def _without_lines(text: str, nodes: Iterator[ast.AST]) -> str:
    """The text without the lines of some nodes, none of which shares a line with other code."""
    dropped: set[int] = set()
    for node in nodes:
        assert isinstance(node, ast.stmt | ast.expr | ast.alias)
        dropped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = dict(enumerate(text.splitlines(keepends=True), start=1))
    for number in sorted(dropped):
        after = next((lines[later] for later in range(number, len(lines) + 1) if later not in dropped), "")
        # A comment that is now above nothing was about what is gone.
        while after.strip() == "" and lines.get(number - 1, "").startswith("#"):
            number -= 1
            dropped.add(number)
    return "".join(line for number, line in lines.items() if number not in dropped)
