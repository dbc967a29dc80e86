"""What the weaver is told of a project: the file ``weaver.toml`` at its root, and nothing else.

The README explains each key. All paths are relative to the root. This module needs the standard library alone: a tool
may read the configuration where neither Sphinx nor the project is installed.
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any

from weaver.fault import Fault

FILE = "weaver.toml"
COMMANDS = ("doctest", "lock", "proof", "mutate")


@dataclass(frozen=True)
class Installed:
    """``[installed]``: a package of the environment whose files pages show, and whose release results are bound to.

    Readers call it by its ``title``; ``prefixes`` gives the folder of the package in which ``PREFIX:path`` looks.
    ``repository`` is the address of a file at its home, with ``{release}`` and ``{path}`` in it. The path is made with
    ``folders``: of what begins ``PREFIX:path``, the folder of the repository; the longest one counts, and one without a
    folder says that the files are made by a build. ``added`` is a first line that packaging puts before some files.
    ``releases`` is where the project lists those that it supports: ``pyproject.toml#tool.package.releases``.
    """

    package: str = ""
    title: str = ""
    prefixes: Mapping[str, str] = field(default_factory=dict)
    repository: str = ""
    folders: Mapping[str, str] = field(default_factory=dict)
    added: str = ""
    releases: str = ""


@dataclass(frozen=True)
class Console:
    """``[console]``: the ``scripts`` that CI runs, and ``called``, those that count where a caller names them."""

    scripts: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """``[run]``: how examples are run.

    ``preload`` names modules that are imported before the pages are forked. A ``starter`` is a module with a function
    ``preload(names)`` that does it otherwise. Of the environment, ``read_late`` begins the names of the variables that
    nothing has read by then. ``warnings`` are filters for Python's option ``-W``.
    """

    preload: tuple[str, ...] = ()
    starter: str = ""
    read_late: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ("error",)
    page_seconds: float = 300.0


@dataclass(frozen=True)
class Build:
    """``[build]``: the ``commands`` that bring a copy of the tree to life; none, where Python alone is measured.

    In their words, ``{tree}``, ``{build}`` and ``{python}`` stand for the copy, the folder of its build and the
    interpreter of its environment; the word ``{definitions}`` for all those of a build that counts (``counted``) or has
    mutants (``mutated``, with ``{options}`` for the compiler), and ``{flags}`` for those of the program that builds.
    ``libraries`` finds what is built; the functions of ``proof/counters.cpp`` in it begin with ``counters``. ``alone``
    is the command that compiles one ``{source}``, of those that ninja does not build.
    """

    alone: tuple[str, ...] = ()
    counters: str = "weaver_counters"
    commands: tuple[tuple[str, ...], ...] = ()
    counted: tuple[str, ...] = ()
    mutated: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measure:
    """``[measure]``: what is particular when lines are measured.

    ``imported`` are the files that run while the package is imported, and ``modules`` those whose import belongs to no
    example. ``loaded`` is a pattern of the functions of C++ that run when a library is loaded. An ``observer`` is a
    module that sees more than lines (``weaver.proof.observer``).
    """

    loaded: str = r"pybind11_init_(?!.*\$)"
    imported: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    observer: str = ""


@dataclass(frozen=True)
class Mutants:
    """``[mutants]``: macros of C++ that mutants treat by their meaning, as regular expressions, and the environment.

    ``checks`` throw unless their first argument holds; ``registering`` functions are called to register something; a
    returned value in ``defaults`` is what ``{}`` would give. Of a macro in ``registrations`` the argument of that
    number may be null, to leave it out. One in ``optional`` is left out by the macro ``WEAVER_OPTIONAL_<name>`` of the
    ``header``, with the question as its first argument. ``environment`` is added to that of the pages.
    """

    checks: str = r"(?!)"
    registering: str = r"(?!)"
    defaults: tuple[str, ...] = ()
    registrations: Mapping[str, int] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    header: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Closure:
    """``[closure]``: what a source needs besides what it includes and imports.

    A ``name`` that the pattern ``used`` finds needs the sources in which ``given`` finds the same; a ``companion`` is a
    pattern of a path, and the path of what it needs.
    """

    used: str = r"(?!)"
    given: str = r"(?!)"
    companions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Longest:
    """``[longest]``: how many ``words`` of prose a page may have, and ``kilobytes`` of HTML; 0 for no limit."""

    words: int = 0
    kilobytes: int = 0


@dataclass(frozen=True)
class Configuration:
    """The whole of it; ``root`` is the folder of the file."""

    root: Path
    pages: str = "docs/source"
    chapters: str = ""
    output: str = "docs/build"
    sandboxes: str = "build"
    results: str = "docs/proof"
    sources: tuple[str, ...] = ()
    executed: tuple[str, ...] = ()
    package: tuple[str, ...] = ()
    excerpts: tuple[str, ...] = ()
    every_file_has_a_chapter: bool = False
    include_folders: tuple[str, ...] = ()
    mentioned: tuple[str, ...] = ()
    built: tuple[str, ...] = ()
    origin: str = ""
    license: str = ""
    license_file: str = "LICENSE"
    bundle_note: str = ""
    message_prefix: str = ""
    commands: Mapping[str, str] = field(default_factory=dict)
    installed: Installed = field(default_factory=Installed)
    console: Console = field(default_factory=Console)
    run: Run = field(default_factory=Run)
    build: Build = field(default_factory=Build)
    measure: Measure = field(default_factory=Measure)
    mutants: Mutants = field(default_factory=Mutants)
    closure: Closure = field(default_factory=Closure)
    longest: Longest = field(default_factory=Longest)

    def result(self, name: str) -> Path:
        """The path of a committed result, relative to the root."""
        return Path(self.results, name)

    def command(self, name: str, arguments: str = "") -> str:
        """What a user types to run one of the weaver's commands."""
        command = self.commands.get(name, f"python -m weaver {name}")
        form = self.commands.get("with_arguments", "{command} {arguments}") if arguments else "{command}"
        return form.format(command=command, arguments=arguments)

    @staticmethod
    def covers(entries: tuple[str, ...], path: str) -> bool:
        """Whether a file is one of ``entries``, or lies below one."""
        return any(path == entry or path.startswith(f"{entry}/") for entry in entries)

    def module(self, name: str) -> ModuleType:
        """A module of the project that the configuration names. An installed one of that name wins."""
        if str(self.root) not in sys.path:
            sys.path.append(str(self.root))
        return importlib.import_module(name)


def find(start: Path) -> Configuration:
    """The configuration of the project in which a folder lies. Throws: ``Fault`` when there is none."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / FILE).is_file():
            return load(folder)
    raise Fault(f"no {FILE} in {start} or above it")


def load(root: Path) -> Configuration:
    """Reads the file at the root of a project. Throws: ``Fault`` for what is no key."""
    given = tomllib.loads((root / FILE).read_text(encoding="utf-8"))
    _check({one.name for one in fields(Configuration)} - {"root"}, given, FILE)
    _check({*COMMANDS, "with_arguments"}, given.get("commands", {}), f"{FILE}: [commands]")
    tables = {name: _frozen(value) for name, value in given.items()}
    for name, kind in _TABLES.items():
        if name in given:
            _check({one.name for one in fields(kind)}, given[name], f"{FILE}: [{name}]")
            tables[name] = kind(**{key: _frozen(value) for key, value in given[name].items()})
    return Configuration(root.resolve(), **tables)


_TABLES = {
    "installed": Installed, "console": Console, "run": Run, "build": Build, "measure": Measure, "mutants": Mutants,
    "closure": Closure, "longest": Longest,
}  # fmt: skip


def _check(known: set[str], given: Mapping[str, Any], where: str) -> None:
    if wrong := sorted(set(given) - known):
        raise Fault(f"{where}: {', '.join(wrong)} is no key; there are {', '.join(sorted(known))}")


def _frozen(value: Any) -> Any:
    """Lists as tuples, so that a configuration is compared by value and never changed."""
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
