"""Runs inside every process of a page that is measured, and tells what each example executes.

C++: the libraries of a build with OPENREG_COVERAGE count into mapped files, named by LLVM_PROFILE_FILE. Python: a trace
function writes each line down when it is first executed. Both survive a process that is killed, as some examples are
meant to be. What runs while torch_openreg is imported belongs to no example: it would run on every page, whatever its
examples do.

A ``.pth`` file of the sandbox imports this module where OPENREG_PROBE names a folder. There lie ``own``, the counters
of the page's process; a folder per example, named by its line, with the counters of its other processes and a copy of
what the page's process counted meanwhile; ``python``, the lines of Python, each with its example; and ``fell_back``,
the operators that fell back to the CPU in the page's process, by name.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import os
import shutil
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType

FOLDER = "OPENREG_PROBE"
EXAMPLE = "OPENREG_PROBE_EXAMPLE"
PROFILE = "LLVM_PROFILE_FILE"
# %c: the counters are in the file all the time, so that a killed process loses none; %m: one file per library.
PATTERN = "%m-%p%c.profraw"
PYTHON = "python"
FELL_BACK = "fell_back"

_ROOT = Path(__file__).resolve().parents[2]
_MEASURED = ("torch_openreg/", "torch_openreg_autoload.py", "csrc/", "examples/", "tools/", "cmake/", "tests/opinfo/")
_NOT_MEASURED = "tools/proof/"


class _Tracer:
    """Writes down which lines of our sources run. ``example`` is whose they are, "" for nobody's."""

    def __init__(self, folder: Path) -> None:
        self.file = os.open(folder / PYTHON, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.example = os.environ.get(EXAMPLE, "")
        self.seen: set[tuple[str, int]] = set()
        # What runs during an import, until it is known how the import ends.
        self.held: list[bytes] | None = None
        self.names: dict[str, str] = {}

    def switch(self, example: str) -> None:
        """Lets what runs from now on belong to another example."""
        self.example = example
        self.seen.clear()

    def trace(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        """Python's trace function: follows calls into our sources only."""
        path = frame.f_code.co_filename
        if path not in self.names:
            self.names[path] = self._name(path)
        return self._line if self.names[path] else None

    def _name(self, path: str) -> str:
        absolute = Path(path).absolute()
        name = absolute.relative_to(_ROOT).as_posix() if absolute.is_relative_to(_ROOT) else ""
        return name if name.startswith(_MEASURED) and not name.startswith(_NOT_MEASURED) else ""

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


def start() -> None:
    """Begins to measure this process."""
    global _tracer
    _tracer = _Tracer(Path(os.environ[FOLDER]))
    threading.settrace(_tracer.trace)
    sys.settrace(_tracer.trace)
    sys.meta_path.insert(0, _AfterImport())


class _AfterImport(importlib.abc.MetaPathFinder):
    """Lets the loaders of some modules call back when their module has been imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        surround = _SURROUND.get(fullname)
        if surround is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                surround(spec.loader)
                return spec
        return None


def _wrap(loader: Any, around: Callable[[Callable[[ModuleType], None], ModuleType], None]) -> None:
    execute = loader.exec_module
    loader.exec_module = lambda module: around(execute, module)


def _forget_import(loader: Any) -> None:
    def around(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        assert _tracer is not None
        # The libraries read the name of their file when they are loaded.
        example = os.environ.get(PROFILE, "")
        os.environ[PROFILE] = _profile or example
        before = libraries()
        _tracer.held = []
        try:
            execute(module)
            _tracer.held.clear()
            for name in libraries().keys() - before.keys():
                libraries()[name].orCountersClear()
        finally:
            # An import that fails is what the example wanted to show, so then nothing is forgotten.
            for record in _tracer.held:
                os.write(_tracer.file, record)
            _tracer.held = None
            _tracer.seen.clear()
            os.environ[PROFILE] = example

    _wrap(loader, around)


def _trace_autograd(loader: Any) -> None:
    """Lets autograd's threads be traced: they are PyTorch's, so Python's ``threading`` does not know of them."""

    def around(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        execute(module)
        apply = module.BackwardCFunction.apply

        def traced(self: Any, *arguments: Any) -> Any:
            if sys.gettrace() is None:
                sys.settrace(threading.gettrace())
            return apply(self, *arguments)

        module.BackwardCFunction.apply = traced

    _wrap(loader, around)


# What loads libraries of torch_openreg, and the module whose backward runs on threads of PyTorch.
_SURROUND = {
    "torch_openreg": _forget_import,
    "torch_openreg.stable": _forget_import,
    "torch.autograd.function": _trace_autograd,
}


def libraries() -> dict[str, ctypes.CDLL]:
    """The libraries of torch_openreg that this process has loaded, by their files."""
    module = sys.modules.get("torch_openreg._C")
    if module is None or module.__file__ is None:
        return {}
    extension = Path(module.__file__)
    found = {}
    for file in (extension, *sorted((extension.parent / "lib").glob("*.so"))):
        with suppress(OSError):  # not loaded, and not to be
            found[str(file)] = ctypes.CDLL(str(file), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    return found


class Probe:
    """Measures the examples of one page, in the page's process."""

    def __init__(self, folder: Path) -> None:
        global _profile
        self.folder = folder
        _profile = os.environ[PROFILE]

    @contextmanager
    def example(self, line: int) -> Iterator[None]:
        """Surrounds the example that stands at ``line`` of the page."""
        os.environ[EXAMPLE] = str(line)
        os.environ[PROFILE] = str(self.folder / str(line) / PATTERN)
        assert _tracer is not None
        _tracer.switch(str(line))
        try:
            yield
        finally:
            self._collect(line)
            self._note_fallbacks()

    def _collect(self, line: int) -> None:
        loaded = libraries().values()
        if not any(library.orCountersAny() for library in loaded):
            return
        target = self.folder / str(line)
        target.mkdir(exist_ok=True)
        for file in (self.folder / "own").glob(f"*-{os.getpid()}*.profraw"):
            shutil.copy(file, target / f"own-{file.name}")
        _clear_counters()

    def _note_fallbacks(self) -> None:
        """Writes down which operators have fallen back in this process, as far as the backend still counts them."""
        module = sys.modules.get("torch_openreg._C")
        names = module._fallback_stats() if module is not None else ()
        with (self.folder / FELL_BACK).open("a", encoding="utf-8") as lines:
            lines.write("".join(f"{name}\n" for name in names))
        _clear_counters()  # the question itself is no example


def _clear_counters() -> None:
    for library in libraries().values():
        library.orCountersClear()


if os.environ.get(FOLDER):
    start()
