"""The stubs that PyTorch's headers declare, and the address of each in this process."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# The tokens of a header that matter for stubs: the beginning of a namespace, another brace, a declaration.
_TOKEN = re.compile(
    r"\bnamespace(?:\s+(?P<namespace>[\w:]+))?\s*\{"
    r"|(?P<brace>[{}])"
    r"|^DECLARE_DISPATCH\([^;]*?,\s*(?P<stub>\w+)\s*\)\s*;?\s*$",
    re.MULTILINE,
)


@dataclass(frozen=True, order=True)
class Stub:
    """A stub by its declaration."""

    header: str  # below ATen/native
    name: str  # qualified if its namespace is not at::native

    @property
    def symbol(self) -> str:
        """Its mangled name, which GCC and Clang give a variable in namespaces."""
        parts = ["at", "native", *self.name.split("::")]
        return f"_ZN{''.join(f'{len(part)}{part}' for part in parts)}E"

    def address(self, library: ctypes.CDLL) -> int | None:
        """Its address in a library, or None if the library does not export it."""
        try:
            return ctypes.addressof(ctypes.c_void_p.in_dll(library, self.symbol))
        except ValueError:
            return None


def declared(include: Path) -> list[Stub]:
    """All stubs that PyTorch's headers below an include folder declare."""
    native = include / "ATen" / "native"
    return [
        Stub(header.relative_to(native).as_posix(), name)
        for header in sorted(native.rglob("*.h"))
        for name in _names(_COMMENT.sub("", header.read_text(encoding="utf-8")))
    ]


def _names(text: str) -> Iterator[str]:
    open_braces: list[str] = []
    for token in _TOKEN.finditer(text):
        if token["stub"]:
            path = "::".join([name for name in open_braces if name] + [token["stub"]])
            yield path.removeprefix("at::native::")
        elif token["brace"] == "}":
            open_braces.pop()
        else:
            open_braces.append(token["namespace"] or "")
