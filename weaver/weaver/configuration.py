"""The configuration of the weaver for a project: the file ``weaver.toml`` at its root, and nothing else.

The README explains each key. All paths are relative to the root. This module needs only the standard library, so a
tool can read the configuration where neither Sphinx nor the project is installed.
"""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any

from weaver.fault import Fault

FILE = "weaver.toml"
COMMANDS = ("doctest", "lock", "proof", "mutate")


@dataclass(frozen=True)
class Installed:
    """``[installed]``: a package of the environment whose files pages show, and to whose release results are bound.

    ``title`` is its name for readers; ``prefixes`` maps the ``PREFIX`` of ``PREFIX:path`` to a folder of the package.
    ``repository`` is the URL of a file in its upstream repository, with ``{release}`` and ``{path}``. ``folders`` maps
    the beginning of a ``PREFIX:path`` to a folder of that repository: the longest match counts, and an empty folder
    means that a build generates the files. ``added`` is a first line that packaging inserts into some files.
    ``releases`` is where the project lists the releases it supports: ``pyproject.toml#tool.package.releases``.
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
    """``[console]``: the ``scripts`` that CI runs; scripts in ``called`` count only where ``callers`` name them."""

    scripts: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """``[run]``: how examples are run.

    ``preload`` names modules that are imported before the pages are forked. A ``starter`` is a module whose function
    ``preload(names)`` replaces the default import. ``read_late`` lists prefixes of environment variables that nothing
    has read by then. ``warnings`` are filters for Python's option ``-W``.
    """

    preload: tuple[str, ...] = ()
    starter: str = ""
    read_late: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ("error",)
    page_seconds: float = 300.0


@dataclass(frozen=True)
class Build:
    """``[build]``: the ``commands`` that build a copy of the tree; empty where only Python is measured.

    In their arguments, ``{tree}``, ``{build}`` and ``{python}`` are the copy, its build folder and the interpreter of
    its environment; the argument ``{definitions}`` expands to those of a build with counters (``counted``) or with
    mutants (``mutated``, with ``{options}`` for the compiler), and ``{flags}`` to the flags of the build program.
    ``libraries`` are patterns of the built libraries, in which the functions of ``proof/counters.cpp`` have the prefix
    ``counters``. ``alone`` is the command that compiles one ``{source}`` that ninja does not build.
    """

    alone: tuple[str, ...] = ()
    counters: str = "weaver_counters"
    commands: tuple[tuple[str, ...], ...] = ()
    counted: tuple[str, ...] = ()
    mutated: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measure:
    """``[measure]``: the settings for measuring lines.

    ``imported`` are the files that run while the package is imported, and ``modules`` those whose import belongs to no
    example. ``loaded`` is a pattern of the C++ functions that run when a library is loaded. An ``observer`` is a module
    that records more than lines (``weaver.proof.observer``). ``unmeasured`` maps patterns of the sources that no build
    of the project can count, in which ``*`` also matches ``/``, to the reason. ``inputs`` maps such patterns to globs
    of the files from which the build, or the program while it runs, makes code that these sources call or load.
    """

    loaded: str = r"pybind11_init_(?!.*\$)"
    imported: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    observer: str = ""
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Mutants:
    """``[mutants]``: C++ macros that mutants treat by their meaning, as regular expressions, and the environment.

    ``checks`` throw unless their first argument holds; ``registering`` functions are called to register something; a
    return value in ``defaults`` equals ``{}``. If ``absent`` is the whole condition of an ``#if``, the release to which
    results are bound lacks what it asks for, so that the code below it is not compiled and has no mutants.
    ``registrations`` maps a macro to the number of the argument that a mutant may replace by null, to drop the
    registration. A macro in ``optional`` is dropped by the macro ``WEAVER_OPTIONAL_<name>`` of the ``header``, whose
    first argument is the condition. ``environment`` is added to that of the pages. The paths in ``left_out`` have no
    mutants: the program itself compiles them, without any.
    """

    checks: str = r"(?!)"
    registering: str = r"(?!)"
    defaults: tuple[str, ...] = ()
    absent: str = r"(?!)"
    registrations: Mapping[str, int] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    header: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Closure:
    """``[closure]``: what a source needs beyond its includes and imports.

    A source in which the pattern ``used`` finds a ``name`` needs the sources in which ``given`` finds the same name; a
    ``companion`` is a pattern of paths, and the path of what such a file needs. What a header declares after the word
    ``optional`` may be defined nowhere, so nothing that defines it is needed.
    """

    used: str = r"(?!)"
    given: str = r"(?!)"
    optional: str = ""
    companions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Longest:
    """``[longest]``: the most ``words`` of prose and ``kilobytes`` of HTML that a page may have; 0 means no limit."""

    words: int = 0
    kilobytes: int = 0


@dataclass(frozen=True)
class Configuration:
    """The whole configuration; ``root`` is the folder of the file."""

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
        """The command line with which a user runs one of the weaver's commands."""
        command = self.commands.get(name, f"python -m weaver {name}")
        form = self.commands.get("with_arguments", "{command} {arguments}") if arguments else "{command}"
        return form.format(command=command, arguments=arguments)

    @staticmethod
    def covers(entries: tuple[str, ...], path: str) -> bool:
        """Whether a file is one of ``entries``, or lies below one."""
        return any(path == entry or path.startswith(f"{entry}/") for entry in entries)

    def why_unmeasured(self, path: str) -> str:
        """The reason why no build can count the lines of a source; empty when one can."""
        given = self.measure.unmeasured.items()
        return next((reason for pattern, reason in given if fnmatchcase(path, pattern)), "")

    def module(self, name: str) -> ModuleType:
        """A module of the project that the configuration names. An installed one of that name wins."""
        if str(self.root) not in sys.path:
            sys.path.append(str(self.root))
        return importlib.import_module(name)


def find(start: Path) -> Configuration:
    """The configuration of the project that contains a folder. Throws: ``Fault`` when there is none."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / FILE).is_file():
            return load(folder)
    raise Fault(f"no {FILE} in {start} or above it")


def load(root: Path) -> Configuration:
    """Reads the file at the root of a project. Throws: ``Fault`` for an unknown key, or a value of another type."""
    given = _read(root / FILE)
    _check_fields(Configuration, given, FILE)
    _check({*COMMANDS, "with_arguments"}, given.get("commands", {}), f"{FILE}: [commands]")
    tables = {name: _frozen(value) for name, value in given.items()}
    for name, kind in _TABLES.items():
        if name in given:
            _check_fields(kind, given[name], f"{FILE}: [{name}]")
            tables[name] = kind(**{key: _frozen(value) for key, value in given[name].items()})
    return Configuration(root.resolve(), **tables)


_TABLES = {
    "installed": Installed, "console": Console, "run": Run, "build": Build, "measure": Measure, "mutants": Mutants,
    "closure": Closure, "longest": Longest,
}  # fmt: skip


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


# What a field of each type expects, and whether a value of tomllib is that; a field of any other type is a table.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a string", lambda value: isinstance(value, str)),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: type(value) is int),
    "float": ("a number", lambda value: type(value) in (int, float)),
    "tuple[str, ...]": ("a list of strings", _are_strings),
    "tuple[tuple[str, ...], ...]": (
        "a list of lists of strings",
        lambda value: isinstance(value, list) and all(map(_are_strings, value)),
    ),
    "tuple[tuple[str, str], ...]": (
        "a list of pairs of strings",
        lambda value: isinstance(value, list) and all(_are_strings(one) and len(one) == 2 for one in value),
    ),
    "Mapping[str, str]": (
        "a table of strings",
        lambda value: isinstance(value, dict) and _are_strings([*value.values()]),
    ),
    "Mapping[str, tuple[str, ...]]": (
        "a table of lists of strings",
        lambda value: isinstance(value, dict) and all(map(_are_strings, value.values())),
    ),
    "Mapping[str, int]": (
        "a table of whole numbers",
        lambda value: isinstance(value, dict) and all(type(one) is int for one in value.values()),
    ),
}


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        byte = f"the byte 0x{error.object[error.start]:02x} at position {error.start}"
        raise Fault(f"{file.name}: expected UTF-8, got {byte}; save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise Fault(f"{file.name}: expected TOML, got a syntax error: {error}") from None


def _check_fields(kind: type[Any], given: Mapping[str, Any], where: str) -> None:
    """Compares keys and values with the fields of a dataclass. Throws: ``Fault``."""
    known = {one.name: str(one.type) for one in fields(kind) if one.name != "root"}
    _check(set(known), given, where)
    for key, value in given.items():
        expected, holds = _KINDS.get(known[key], ("a table", lambda value: isinstance(value, dict)))
        if not holds(value):
            raise Fault(f"{where}: {key}: expected {expected}, got {json.dumps(value, default=str)}")


def _check(known: set[str], given: Mapping[str, Any], where: str) -> None:
    if wrong := sorted(set(given) - known):
        raise Fault(f"{where}: {', '.join(wrong)} is no key; there are {', '.join(sorted(known))}")


def _frozen(value: Any) -> Any:
    """Converts lists to tuples, so that a configuration is immutable and compares by value."""
    if isinstance(value, dict):
        return {key: _frozen(one) for key, one in value.items()}
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
