"""What a project can tell the measurement that lines do not say: the module ``observer`` of ``[measure]``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from weaver.configuration import Configuration

Around = Callable[[Callable[[ModuleType], None], ModuleType], None]


class Observer(Protocol):
    """A module with these functions.

    A page may do without something that is not there, and falls back on something else: it is measured again when one
    of the names that ``fell_back`` gave is ``present``, for the reason ``CHANGED``. ``SURROUND`` has functions that are
    called in the place of the import of a module, which they are given with what executes it.
    """

    SURROUND: Mapping[str, Around]
    CHANGED: str

    def fell_back(self) -> Iterable[str]:
        """The names of what this process did without; asked after each example, in the process of the page."""

    def present(self, root: Path) -> Collection[str]:
        """The names of what the project has now."""


class _Nothing:
    """Stands for an observer where there is none."""

    SURROUND: Mapping[str, Around] = {}
    CHANGED = ""

    def fell_back(self) -> Iterable[str]:
        return ()

    def present(self, root: Path) -> Collection[str]:
        return ()


def observer(configuration: Configuration) -> Observer:
    """The one that the configuration names."""
    name = configuration.measure.observer
    return cast("Observer", configuration.module(name)) if name else _Nothing()
