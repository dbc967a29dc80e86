"""The interface by which a project records more than lines: the module ``observer`` of ``[measure]``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from weaver.configuration import Configuration

Around = Callable[[Callable[[ModuleType], None], ModuleType], None]


class Observer(Protocol):
    """A module with these functions.

    A page may fall back when the project lacks something: it is measured again when one of the names that
    ``fell_back`` returned becomes ``present``, for the reason ``CHANGED``. ``SURROUND`` maps module names to functions
    that replace the import: each is called with the function that executes the module, and the module.
    """

    SURROUND: Mapping[str, Around]
    CHANGED: str

    def fell_back(self) -> Iterable[str]:
        """The names of what this process lacked; called after each example, in the process of the page."""

    def present(self, root: Path) -> Collection[str]:
        """The names of what the project provides now."""


class _Nothing:
    """The null observer."""

    SURROUND: Mapping[str, Around] = {}
    CHANGED = ""

    def fell_back(self) -> Iterable[str]:
        return ()

    def present(self, root: Path) -> Collection[str]:
        return ()


def observer(configuration: Configuration) -> Observer:
    """The observer that the configuration names."""
    name = configuration.measure.observer
    return cast("Observer", configuration.module(name)) if name else _Nothing()
