"""Looks for functions that one object file defines, and that others have from an inline definition in a header.

C++ calls that undefined behavior. The compiler sees one file at a time and the linker keeps one definition without a
word, for the callers of both.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from environment import Fault

# A line of nm: file, address, kind and name. T is a definition, W one that others may replace, as inline functions are.
_SYMBOL = re.compile(r"^(?P<file>.+?):[0-9a-f]+ (?P<kind>[TW]) (?P<name>.+)$", re.MULTILINE)


def faults(objects: Sequence[Path], namespace: str = "openreg::") -> Iterator[str]:
    """Yields a line for each function of the namespace that is defined both ways.

    Raises:
        Fault: if there are no object files, or ``nm`` cannot read them.
    """
    if not objects:
        raise Fault("there are no object files to look at: build the extension first (make build)")
    command = ["nm", "--demangle", "--defined-only", "--print-file-name", *map(str, objects)]
    try:
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise Fault("nm is needed to read object files, found none on PATH; install binutils") from None
    except subprocess.CalledProcessError as error:
        raise Fault(f"nm cannot read the object files: {error.stderr.strip()}") from None
    files: dict[str, dict[str, set[str]]] = defaultdict(lambda: {"T": set(), "W": set()})
    for match in _SYMBOL.finditer(ran.stdout):
        if match["name"].startswith(namespace):
            files[match["name"]][match["kind"]].add(Path(match["file"]).name)
    for name, where in sorted(files.items()):
        if where["T"] and where["W"]:
            yield (
                f"{name} is defined in {', '.join(sorted(where['T']))}, and inline in a header that "
                f"{', '.join(sorted(where['W']))} include: rename one, or put it into an unnamed namespace"
            )
