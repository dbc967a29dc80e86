"""A committed result carries a digest of what it was made from, so that `make check` can say when it is stale.

Comments are found by a regular expression: a syntax tree would be one line longer, and make each command that measures
install a parser.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from prerequisites import installed_torch

# Or a string, which may contain what begins a comment.
_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|\s*//.*')


def digest(patterns: Iterable[str], root: Path = Path()) -> str:
    """Changes with the files that the patterns find under the root, and with PyTorch."""
    result = hashlib.sha256(str(installed_torch()).partition("+")[0].encode())
    for path in sorted(path for pattern in patterns for path in root.glob(pattern) if path.is_file()):
        text = path.read_text(encoding="utf-8")
        # Of C++ without comments and layout: what is compiled does not depend on them.
        code = " ".join(_COMMENT.sub(_string, text).split()) if path.suffix in {".cpp", ".h"} else text
        result.update(f"{path.relative_to(root)}\0{code}".encode())
    return result.hexdigest()


def _string(match: re.Match[str]) -> str:
    return match[1] or ""


def stale(result: Path, digest_now: str, command: str) -> Iterator[str]:
    """Says what is wrong with a result, if anything, and which command makes it anew."""
    if not result.is_file():
        yield f"{result} is missing: run `{command}`"
    elif digest_now not in result.read_text(encoding="utf-8"):
        yield f"{result}: sources or PyTorch have changed since it was made: run `{command}`"
