"""A command of tools/dev.py: the function that runs it, and what must be installed first."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

from driver import announce, is_chosen
from environment import Fault, ensure_requirements, ensure_torch
from extension import ensure_extension


class Command(NamedTuple):
    """A command, and what is installed in addition to torch when it starts."""

    run: Callable[[list[str]], None]
    extras: tuple[str, ...] = ()
    """Extras of pyproject.toml: all that the command imports, whatever an earlier one has left there."""
    extension: bool = False
    """Whether the extension is built and installed; without it a command builds its own, or none."""
    own_build: bool = False
    """Whether it builds its own with the driver that is chosen."""
    pages: bool = False
    """Whether it reads pages, which are about the reference release of PyTorch."""
    takes_arguments: bool = True
    """Whether it reads its arguments; otherwise they are refused."""
    parse: Callable[[list[str]], object] | None = None
    """Parses the arguments without what is installed for the command: wrong ones are refused before that."""

    def check(self, name: str, arguments: Sequence[str]) -> None:
        """Raises: ``Fault`` or ``SystemExit``, if there are arguments that the command would ignore or refuse."""
        if arguments and not self.takes_arguments:
            raise Fault(f"make {name} takes no ARGS, got {shlex.join(arguments)}; run it without")
        if self.parse:
            self.parse(list(arguments))

    def prepare(self, name: str) -> None:
        """Installs torch, the extras and the extension. Raises: ``Fault``, if a driver is chosen but not used."""
        if self.extension or self.own_build:
            announce()
        elif is_chosen():
            raise Fault(f"make {name} takes no DRIVER and no HOST_KERNELS: it builds with the defaults, or not at all")
        ensure_torch(self.pages)
        ensure_requirements(*self.extras)
        if self.extension:
            ensure_extension()
