"""Runs inside every process of a measured page, and records what each example executes.

C++: the libraries of a build with counters count into mapped files, named by LLVM_PROFILE_FILE. Python: a trace
function records each line when it is first executed. Both survive a process that is killed, as some examples are meant
to be. Code that runs while the package is imported belongs to no example: it runs on every page, whatever its examples
do.

A ``.pth`` file of the sandbox starts the probe where WEAVER_PROBE names a folder. The folder contains ``own``, the
counters of the page's process; a folder per example, named by its line, with the counters of its other processes and a
copy of what the page's process counted meanwhile; ``python``, the executed lines of Python, each with its example; and
``fell_back``, the names that the observer reports the page's process to lack.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import os
import shutil
import sys
import threading
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weaver.configuration import load
from weaver.proof.observer import observer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType

    from weaver.configuration import Configuration
    from weaver.proof.observer import Around

FOLDER = "WEAVER_PROBE"
EXAMPLE = "WEAVER_PROBE_EXAMPLE"
PROFILE = "LLVM_PROFILE_FILE"
# %c: the counters are in the file all the time, so that a killed process loses none; %m: one file per library.
PATTERN = "%m-%p%c.profraw"
PYTHON = "python"
FELL_BACK = "fell_back"


class _Tracer:
    """Records which lines of our sources run. ``example`` is the example that they belong to, or ""."""

    def __init__(self, configuration: Configuration, folder: Path) -> None:
        self.configuration = configuration
        self.observer = observer(configuration)
        self.file = os.open(folder / PYTHON, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.example = os.environ.get(EXAMPLE, "")
        self.seen: set[tuple[str, int]] = set()
        # The lines that run during an import, until its outcome is known.
        self.held: list[bytes] | None = None
        self.names: dict[str, str] = {}

    def switch(self, example: str) -> None:
        """Attributes the lines that run from now on to another example."""
        self.example = example
        self.seen.clear()

    def trace(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        """Python's trace function: follows calls into our sources only."""
        path = frame.f_code.co_filename
        if path not in self.names:
            self.names[path] = self._name(path)
        return self._line if self.names[path] else None

    def _name(self, path: str) -> str:
        absolute, root = Path(path).absolute(), self.configuration.root
        name = absolute.relative_to(root).as_posix() if absolute.is_relative_to(root) else ""
        return name if self.configuration.covers(self.configuration.sources, name) else ""

    def _line(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        key = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and self.example and key not in self.seen:
            self.seen.add(key)
            record = f"{self.example}\t{self.names[key[0]]}\t{key[1]}\n".encode()
            if self.held is None:
                os.write(self.file, record)
            else:
                self.held.append(record)
        return self._line


_tracer: _Tracer | None = None
_profile = ""


def start(root: str) -> None:
    """Begins to measure which lines of the tree ``root`` this process runs.

    A second call does nothing: Python may read the file that starts it twice.
    """
    global _tracer
    if _tracer is not None:
        return
    _tracer = _Tracer(load(Path(root)), Path(os.environ[FOLDER]))
    threading.settrace(_tracer.trace)
    sys.settrace(_tracer.trace)
    sys.meta_path.insert(0, _AfterImport())


class _AfterImport(importlib.abc.MetaPathFinder):
    """Surrounds the execution of some modules with functions of their own."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        assert _tracer is not None
        forgotten = fullname in _tracer.configuration.measure.modules
        around = _forget_import if forgotten else _tracer.observer.SURROUND.get(fullname)
        if around is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                _surround(spec.loader, around)
                return spec
        return None


def _surround(loader: Any, around: Around) -> None:
    execute = loader.exec_module
    loader.exec_module = lambda module: around(execute, module)


def _forget_import(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    assert _tracer is not None
    # The libraries read the name of their profile when they are loaded.
    example = os.environ.get(PROFILE, "")
    os.environ[PROFILE] = _profile or example
    before = libraries()
    _tracer.held = []
    try:
        execute(module)
        _tracer.held.clear()
        for name in libraries().keys() - before.keys():
            _counters(libraries()[name], "mark")
            _counters(libraries()[name], "drop")
    finally:
        # The lines of a failed import are kept: an example caused it deliberately.
        for record in _tracer.held:
            os.write(_tracer.file, record)
        _tracer.held = None
        _tracer.seen.clear()
        os.environ[PROFILE] = example


def libraries() -> dict[str, ctypes.CDLL]:
    """The libraries with counters that this process has loaded, by file."""
    assert _tracer is not None
    patterns = [f"*/{pattern}" for pattern in _tracer.configuration.build.libraries]
    mapped = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines())
    files = {fields[5] for fields in mapped if len(fields) == 6}
    loaded = sorted(file for file in files if any(fnmatch(file, pattern) for pattern in patterns))
    return {file: ctypes.CDLL(file, mode=os.RTLD_NOLOAD | os.RTLD_LAZY) for file in loaded}


def _counters(library: ctypes.CDLL, function: str) -> int:
    assert _tracer is not None
    answer: int = getattr(library, f"{_tracer.configuration.build.counters}_{function}")()
    return answer


class Probe:
    """Measures the examples of one page, in its process."""

    def __init__(self, folder: Path) -> None:
        global _profile
        self.folder = folder
        _profile = os.environ[PROFILE]

    @contextmanager
    def example(self, line: int) -> Iterator[None]:
        """Surrounds the example at ``line`` of the page."""
        os.environ[EXAMPLE] = str(line)
        os.environ[PROFILE] = str(self.folder / str(line) / PATTERN)
        assert _tracer is not None
        _tracer.switch(str(line))
        try:
            yield
        finally:
            self._collect(line)
            self._note_what_fell_back()

    def _collect(self, line: int) -> None:
        loaded = libraries().values()
        if not any(_counters(library, "any") for library in loaded):
            return
        target = self.folder / str(line)
        target.mkdir(exist_ok=True)
        own = self.folder / "own"
        own.mkdir(exist_ok=True)
        # A library that an example loads directly, without the package, counts into the folder of that example.
        for file in target.glob(f"[0-9]*-{os.getpid()}.profraw"):
            file.rename(own / file.name)
        # Other threads go on counting: what is counted after the mark belongs to the next example as well.
        _each_library("mark")
        for file in own.glob(f"*-{os.getpid()}*.profraw"):
            shutil.copy(file, target / f"own-{file.name}")
        _each_library("drop")

    def _note_what_fell_back(self) -> None:
        assert _tracer is not None
        _each_library("mark")
        names = _tracer.observer.fell_back()
        _each_library("restore")  # the call itself belongs to no example
        with (self.folder / FELL_BACK).open("a", encoding="utf-8") as lines:
            lines.write("".join(f"{name}\n" for name in names))


def _each_library(function: str) -> None:
    for library in libraries().values():
        _counters(library, function)
