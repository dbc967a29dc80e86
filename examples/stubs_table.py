"""How many stubs each header of PyTorch declares, and how many of them this backend fills."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import torch

HEADERS = Path(torch.__file__).parent / "include" / "ATen" / "native"
DECLARED = re.compile(r"^DECLARE_DISPATCH\(([^;]*?),\s*(\w+)\s*\)\s*;?\s*$", re.MULTILINE)
FILLED = re.compile(r"^REGISTER_PRIVATEUSE1_DISPATCH\((\w+),", re.MULTILINE)


def filled() -> Iterator[str]:
    """The stubs that this backend fills: by hand, and from the list of the generator."""
    for source in Path("csrc", "aten").glob("*.cpp"):
        yield from FILLED.findall(source.read_text(encoding="utf-8"))
    listed = tomllib.loads(Path("csrc", "aten", "structured.toml").read_text(encoding="utf-8"))
    for family in listed["stubs"]:
        yield from family["stubs"]


def main() -> None:
    """Prints a line for each header, and the sum."""
    ours = set(filled())
    total = 0
    rest = 0
    for header in sorted(HEADERS.rglob("*.h")):
        stubs = [name for _, name in DECLARED.findall(header.read_text(encoding="utf-8"))]
        here = [name for name in stubs if name in ours]
        total += len(here)
        if here:
            left = [name for name in stubs if name not in ours]
            print(
                f"{header.name:17}{len(here):3} of {len(stubs):2}",
                *(["not", ", ".join(left)] if 0 < len(left) < 5 else []),
            )
        else:
            rest += len(stubs)
    print(f"{total} of them; {rest} more are in headers of which none is filled")


if __name__ == "__main__":
    main()
