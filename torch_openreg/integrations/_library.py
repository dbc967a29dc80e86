"""What all integrations share: the check of an installed library, and the replacement of one of its functions."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import torch
from torch.torch_version import TorchVersion

from torch_openreg import openreg


# LITERALINCLUDE START: integrations-require
def require(library: str, oldest: str) -> None:
    """Checks that a library is installed, and not older than the release for which the integration was written.

    Raises:
        ImportError: names the release that is installed, if any, and the command that installs another.
    """
    try:
        version = metadata.version(library)
    except metadata.PackageNotFoundError:
        version = ""
    if not version or TorchVersion(version) < oldest:
        found = f"{library} {version}" if version else f"no {library}"
        raise ImportError(
            f"openreg: the integration needs {library} {oldest} or newer, found {found}: pip install "
            f"'{library}>={oldest}'",
            name=library,
        )


# LITERALINCLUDE END: integrations-require


# LITERALINCLUDE START: integrations-device
def device(index: int) -> torch.device:
    """The device of an index, from 0.

    Raises:
        ValueError: if there is no such device. A library would notice at its first tensor, far from the mistake.
    """
    count = openreg.device_count()
    if not 0 <= index < count:
        cure = f"pass an index from 0 to {count - 1}" if count else "this process has no device at all"
        raise ValueError(f"openreg: there is no device {index}: {cure}")
    return torch.device("openreg", index)


# LITERALINCLUDE END: integrations-device


# LITERALINCLUDE START: integrations-replacement
class Replacement:
    """One function of a library that a function of ours can replace, and put back.

    Args:
        owner: the module or the class that defines the function, by its full name.
        name: the name of the function.
        parameters: the names with which its parameters must begin. Others pass through the replacement.
        wrap: makes the replacement; gets the original.
    """

    def __init__(self, owner: str, name: str, parameters: str, wrap: Callable[[Any], Callable[..., Any]]) -> None:
        self._owner, self._name, self._parameters, self._wrap = owner, name, parameters, wrap
        self._original: Any = None
        self._replacement: Any = None

    def install(self) -> None:
        """Replaces the function, unless that has been done.

        Raises:
            RuntimeError: if the library has the function elsewhere, or with other parameters.
            ValueError: if `wrap` returns the function that it gets: it would be marked as a wrapper of itself.
        """
        if self._replacement is None:
            original = self._checked()
            replacement = self._wrap(original)
            if replacement is original:
                raise ValueError(
                    f"openreg: the replacement of {self._owner}.{self._name} is that function itself: return another "
                    "one from wrap(), which calls it"
                )
            self._original, self._replacement = original, functools.wraps(original, updated=())(replacement)
            self._exchange(self._original, self._replacement)

    def remove(self) -> None:
        """Puts the original back, unless that has been done.

        Raises:
            RuntimeError: if somebody else has replaced the function since: theirs would be lost, or call ours.
        """
        if self._replacement is None:
            return
        if vars(self._found_owner())[self._name] is not self._replacement:
            raise RuntimeError(
                f"openreg: {self._owner}.{self._name} has been replaced again, by other code: undo that first"
            )
        self._exchange(self._replacement, self._original)
        self._original = self._replacement = None

    # LITERALINCLUDE END: integrations-replacement

    # LITERALINCLUDE START: integrations-checked
    def _found_owner(self) -> Any:
        """The module or class. It is imported if it has not been."""
        try:
            return importlib.import_module(self._owner)
        except ModuleNotFoundError:
            module, _, name = self._owner.rpartition(".")
            return getattr(importlib.import_module(module), name)

    def _checked(self) -> Any:
        """The function that the library has now, if it is the one that the replacement was written for."""
        library = self._owner.partition(".")[0]
        expected, found = f"{self._name}({self._parameters} ...)", "missing"
        try:
            function = vars(self._found_owner()).get(self._name)
        except (ImportError, AttributeError):
            function, found = None, f"missing, as is {self._owner}"
        if function is not None:
            parameters = list(inspect.signature(function).parameters)
            wanted = self._parameters.split()
            if parameters[: len(wanted)] == wanted:
                return function
            found = f"{self._name}({' '.join(parameters)})"
        raise RuntimeError(
            f"openreg: {self._owner}.{self._name} of {library} {metadata.version(library)} is {found}, and the "
            f"integration replaces {expected}: use a release that has it, or adapt torch_openreg/integrations"
        )

    def _exchange(self, before: Any, after: Any) -> None:
        """Replaces a function where it is defined and, since `from a import b` copies names, wherever it is held."""
        owner = self._found_owner()
        if inspect.isclass(owner):
            setattr(owner, self._name, after)
            return
        for module in list(sys.modules.values()):
            names = vars(module) if inspect.ismodule(module) else {}
            for name in [name for name, value in list(names.items()) if value is before]:
                setattr(module, name, after)

    # LITERALINCLUDE END: integrations-checked


# LITERALINCLUDE START: integrations-install
def install(replacements: Sequence[Replacement]) -> None:
    """Replaces all of the functions, or none of them.

    Raises:
        RuntimeError: if the library has one of them elsewhere, or with other parameters.
        ValueError: if a `wrap` returns the function that it gets.
    """
    for number, replacement in enumerate(replacements):
        try:
            replacement.install()
        except (RuntimeError, ValueError):
            for earlier in replacements[:number]:
                earlier.remove()
            raise


# LITERALINCLUDE END: integrations-install


def bound(function: Callable[..., Any], *arguments: Any, **options: Any) -> inspect.BoundArguments:
    """The arguments of a call by the names of a function's parameters, so that one of them can be read or changed."""
    return inspect.signature(function).bind(*arguments, **options)
