"""Calls a function once a module has been imported, without importing it: the package's import stays fast.

Called at the import of torch_openreg; the function runs on whatever thread imports the module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


# LITERALINCLUDE START: compile-after-import
class _CallingLoader(Loader):
    """Runs a module by its own loader, then calls the function."""

    def __init__(self, loader: Loader, then: Callable[[], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # As if there had been no hook: who reads a module's source asks its loader.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then()

    def __getattr__(self, name: str) -> Any:
        # As if there had been no hook: runpy asks for get_code(), and inspect for get_source(). A copy is still empty.
        return getattr(vars(self).get("_loader"), name)  # NOT PROVEN: tests/compile/test_after_import.py


class _Finder(MetaPathFinder):
    """Finds one module as the finders behind it do, until it has been imported."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        finders = sys.meta_path
        later = finders[finders.index(self) + 1 :] if self in finders else finders
        spec = next((spec for finder in later if (spec := finder.find_spec(fullname, path, target))), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, self._imported)
        return spec

    def _imported(self) -> None:
        # Not before: a program may look for a module, and not import it. A new list, because another thread may iterate
        # over this one: it would leave out the finder behind.
        sys.meta_path = [finder for finder in sys.meta_path if finder is not self]
        self._then()


def after_import(name: str, then: Callable[[], None]) -> None:
    """Calls `then` now if the module was imported, and otherwise at the end of its import.

    Args:
        name: the module's full name.
        then: the function. What it raises ends the import of the module.
    """
    if name in sys.modules:
        then()
    else:
        sys.meta_path = [_Finder(name, then), *sys.meta_path]


# LITERALINCLUDE END: compile-after-import
