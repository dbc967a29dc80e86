"""Runs inside every process of a page that is measured, and tells what each example executes.

C++: the libraries of a build with OPENREG_COVERAGE count into mapped files, named by LLVM_PROFILE_FILE. Python:
coverage.py, with one context per example. What runs while torch_openreg is imported belongs to no example: it would run
on every page, whatever its examples do.

A ``.pth`` file of the sandbox imports this module where OPENREG_PROBE names a folder. There lie ``own``, the counters
of the page's process; a folder per example, named by its line, with the counters of its other processes and a copy of
what the page's process counted meanwhile; and ``python``, the data of coverage.py.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.abc
import os
import shutil
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

FOLDER = "OPENREG_PROBE"
EXAMPLE = "OPENREG_PROBE_EXAMPLE"
# %c: the counters are in the file all the time, so that a killed process loses none; %m: one file per library.
PATTERN = "%m-%p%c.profraw"
IMPORT = "import"

_coverage: Any = None


def start() -> None:
    """Begins to measure this process."""
    global _coverage
    from coverage import Coverage

    folder = Path(os.environ[FOLDER])
    root = Path(__file__).resolve().parents[2]
    _coverage = Coverage(
        data_file=str(folder / "python" / "data"),
        data_suffix=True,
        config_file=False,
        include=[f"{root}/{name}/*" for name in ("torch_openreg", "examples", "tools", "cmake")]
        + [f"{root}/torch_openreg_autoload.py"],
        messages=False,
    )
    _coverage.start()
    _coverage.switch_context(os.environ.get(EXAMPLE, IMPORT))
    atexit.register(_save)
    sys.meta_path.insert(0, _AfterImport())


def _save() -> None:
    _coverage.stop()
    _coverage.save()


class _AfterImport(importlib.abc.MetaPathFinder):
    """Lets the loaders of two modules call back when their module has been imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        surround = {"torch_openreg": _forget_import, "torch.autograd.function": _trace_autograd}.get(fullname)
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
        _coverage.switch_context(IMPORT)
        # An import that fails is what an example wanted to show, so then nothing is forgotten.
        execute(module)
        for library in libraries():
            library.orCountersClear()
        _coverage.switch_context(os.environ.get(EXAMPLE, IMPORT))

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


def libraries() -> list[ctypes.CDLL]:
    """The libraries of torch_openreg that this process has loaded."""
    module = sys.modules.get("torch_openreg._C")
    if module is None or module.__file__ is None:
        return []
    extension = Path(module.__file__)
    return [ctypes.CDLL(str(file)) for file in (extension, *sorted((extension.parent / "lib").glob("*.so")))]


class Probe:
    """Measures the examples of one page, in the page's process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def example(self, line: int) -> Iterator[None]:
        """Surrounds the example that stands at ``line`` of the page."""
        os.environ[EXAMPLE] = str(line)
        os.environ["LLVM_PROFILE_FILE"] = str(self.folder / str(line) / PATTERN)
        _coverage.switch_context(str(line))
        try:
            yield
        finally:
            self._collect(line)

    def _collect(self, line: int) -> None:
        loaded = libraries()
        if not any(library.orCountersAny() for library in loaded):
            return
        target = self.folder / str(line)
        target.mkdir(exist_ok=True)
        for file in (self.folder / "own").glob(f"*-{os.getpid()}*.profraw"):
            shutil.copy(file, target / f"own-{file.name}")
        for library in loaded:
            library.orCountersClear()


if os.environ.get(FOLDER):
    start()
