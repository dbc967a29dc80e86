"""``make surface``: what of PyTorch the backend stands on, written down; a new release shows its changes as a diff.

It is two things that a compiler does not compare: the virtual functions that PyTorch calls, in the order in which
tables have them, and the schemas of the operators that the backend registers. Both are read without the backend, which
a new release does not load. As a script, ``python tools/surface.py`` compares, before anything is built.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path

# Not installed: this runs where nothing is but torch.
sys.path.append(str(Path(__file__).resolve().parents[1] / "weaver"))

from driver import default, installed, result
from weaver.sources.headers import virtual_methods

FILE = Path("docs", "proof", "surface.txt")
CURE = "read what changed, and the chapter about it; then run `make surface` and commit the file"
OPERATORS = "operators"
KEYS = ("PrivateUse1", "AutogradPrivateUse1", "AutocastPrivateUse1")
# The classes that a backend derives from, or may.
INTERFACES = {
    "AcceleratorHooksInterface": "ATen/detail/AcceleratorHooksInterface.h",
    "PrivateUse1HooksInterface": "ATen/detail/PrivateUse1HooksInterface.h",
    "DeviceGuardImplInterface": "c10/core/impl/DeviceGuardImplInterface.h",
    "Allocator": "c10/core/Allocator.h",
    "DeviceAllocator": "c10/core/CachingDeviceAllocator.h",
    "HostAllocator": "ATen/core/CachingHostAllocator.h",
    "CachingHostAllocatorImpl": "ATen/core/CachingHostAllocator.h",
    "GeneratorImpl": "c10/core/GeneratorImpl.h",
    "BackendMeta": "c10/core/TensorImpl.h",
    "GraphImplInterface": "ATen/core/GraphImplInterface.h",
}
# Each runs in a process of its own: this one need not import torch, and must not load a backend twice.
_SCHEMAS = """
import json, torch
print(json.dumps([torch.__file__, sorted({str(schema) for schema in torch._C._jit_get_all_schemas()})]))
"""
_REGISTERED = f"""
import json, torch, torch_openreg
of_key = torch._C._dispatch_get_registrations_for_dispatch_key
print(json.dumps([name for key in {KEYS} for name in of_key(key) if name.startswith("aten::")]))
"""


def interfaces(include: Path) -> Iterator[str]:
    """A heading for each class, and its virtual functions. Throws: ``LookupError`` when one is not in its header."""
    for name, header in INTERFACES.items():
        file = include / header
        if not file.is_file():
            raise LookupError(f"PyTorch has no {header} any more, in which {name} was")
        yield f"[{name} in {header}]"
        yield from (method.declaration for method in virtual_methods(file.read_text(encoding="utf-8"), name))
        yield ""


def operators(schemas: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """The schema of each operator; one that is gone is named without."""
    known = {schema.partition("(")[0]: schema for schema in schemas}
    yield f"[{OPERATORS}]"
    yield from (known.get(name, f"{name}: no such operator") for name in sorted(names))


def names_in(text: str) -> set[str]:
    """The operators that a file names."""
    lines = text.partition(f"[{OPERATORS}]\n")[2].splitlines()
    return {line.partition("(")[0].partition(": ")[0] for line in lines}


def current(names: Iterable[str]) -> str:
    """What the file would hold with the installed PyTorch. Throws: ``LookupError``."""
    torch, schemas = _ask(_SCHEMAS)
    return "\n".join([*interfaces(Path(torch).parent / "include"), *operators(schemas, names)]) + "\n"


def stale(file: Path = FILE) -> Iterator[str]:
    """How the file differs from the installed PyTorch, and which operators of the backend it lacks."""
    if not file.is_file():
        yield f"{file} is missing: run `make surface`"
        return
    written = file.read_text(encoding="utf-8")
    # Of the default driver with all that it has: another one may have fewer operators.
    registered = _registered() if installed() in (None, default()) else None
    names = names_in(written)
    if registered is not None and registered != names:
        few = ", ".join(sorted(registered ^ names)[:5])
        yield f"{file} is of other operators than the backend registers ({few}): run `make surface`"
    try:
        found = current(names)
    except LookupError as error:
        yield f"{file}: {error}"
        return
    changes = list(
        unified_diff(written.splitlines(), found.splitlines(), str(file), "the installed PyTorch", "", "", 1)
    )
    if changes:
        yield "\n".join(change.rstrip("\n") for change in changes)
        yield f"{file}: PyTorch is not what this backend was written against; {CURE}"


def main() -> None:
    """Writes the file. A backend that does not load, as with a new release, is taken to register what it did before."""
    names = _registered() or names_in(FILE.read_text(encoding="utf-8"))
    file = result(FILE)
    file.write_text(current(names), encoding="utf-8")
    print(f"make surface: {len(INTERFACES)} interfaces and {len(names)} operators are in {file}")


def _registered() -> set[str] | None:
    """The operators of the backend, None where it cannot be loaded."""
    try:
        return set(_ask(_REGISTERED))
    except LookupError:
        return None


def _ask(code: str) -> list[str]:
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise LookupError(ran.stderr.strip().rpartition("\n")[2])
    answer: list[str] = json.loads(ran.stdout)
    return answer


if __name__ == "__main__":
    differences = list(stale())
    print(*differences or [f"{FILE} holds"], sep="\n")
    sys.exit(bool(differences))
