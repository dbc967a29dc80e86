"""Prepares a process to be forked: it has nearly finished ``import torch``, which takes over a second.

It has imported torch but no backend, and has never touched a device. Each process that it forks finishes the import at
its own ``import torch``: then the backend is loaded, unless its environment forbids it. The examples of the pages
(``[run]`` of weaver.toml) and the programs of the tests (tests/processes.py) are run like this.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Sequence
from typing import Any

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"


def preload(names: Sequence[str]) -> None:
    """Import torch without backends, and modules that it imports late, then hide torch."""
    given = os.environ.get(_AUTOLOAD)
    os.environ[_AUTOLOAD] = "0"
    for name in names:
        importlib.import_module(name)
    del os.environ[_AUTOLOAD]
    if given is not None:
        os.environ[_AUTOLOAD] = given
    sys.meta_path.insert(0, _Rest(sys.modules.pop("torch")))


class _Rest(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The rest of ``import torch``: returns the existing module, and loads the backends."""

    def __init__(self, torch: types.ModuleType) -> None:
        self._torch = torch
        self._spec = torch.__spec__

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """Find torch, once."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        return importlib.machinery.ModuleSpec("torch", self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the existing module."""
        return self._torch

    def exec_module(self, module: Any) -> None:
        """Load the backends, as torch does at the end of its import."""
        module.__spec__ = self._spec
        if module._is_device_backend_autoload_enabled():
            module._import_device_backends()
