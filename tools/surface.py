"""``make surface``: records the parts of PyTorch that the backend depends on; a new release appears as a diff.

They are what no compiler compares: the virtual functions that PyTorch calls, in vtable order; the schemas of the
operators that the backend registers; the keys for which PyTorch itself has a kernel of an operator, which decide what
reaches a backend; the stubs, the dtypes, and the names that PyTorch looks up on a device module. All of it is read
without the backend, which a new release cannot load. As a script, ``python tools/surface.py`` compares, and needs no
build.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

# Not installed: this also runs where only torch is installed.
sys.path.append(str(Path(__file__).resolve().parents[1] / "weaver"))

from driver import default, installed, result
from stubs.declared import declared as declared_stubs
from weaver.sources.headers import virtual_methods

FILE = Path("docs", "proof", "surface.txt")
CURE = "read what changed, and the chapter about it; then run `make surface` and commit the file"
OPERATORS = "operators"
DISPATCH = "kernels of PyTorch, by operator"
STUBS = "stubs"
DTYPES = "dtypes"
NAMES = "names that PyTorch looks up on a device module"
KEYS = ("PrivateUse1", "AutogradPrivateUse1", "AutocastPrivateUse1")
# The classes that a backend derives from or may derive from.
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
# PyTorch's own kernels for these keys decide whether a backend needs one, and infer shapes.
_KEYS_OF_KERNELS = ("CPU", "Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
# Each runs in a separate process: this one need not import torch, and must not load a backend twice.
_PYTORCH = f"""
import json, sys, torch
sys.path.insert(0, "examples")
from frontend_contract import lookups
has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
names = sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
print(json.dumps({{
    "file": torch.__file__,
    "schemas": sorted({{str(schema) for schema in torch._C._jit_get_all_schemas()}}),
    "kernels": {{name: [key for key in {_KEYS_OF_KERNELS} if has_kernel(name, key)] for name in names}},
    "names": {{name: sorted(files) for name, files in sorted(lookups().items())}},
    "dtypes": sorted({{str(value) for value in vars(torch).values() if isinstance(value, torch.dtype)}}),
}}))
"""
_REGISTERED = f"""
import json, torch, torch_openreg
of_key = torch._C._dispatch_get_registrations_for_dispatch_key
print(json.dumps([name for key in {KEYS} for name in of_key(key) if name.startswith("aten::")]))
"""


def interfaces(include: Path) -> Iterator[str]:
    """A heading for each class, and its virtual functions. Throws: ``LookupError``, if a header lacks its class."""
    for name, header in INTERFACES.items():
        file = include / header
        if not file.is_file():
            raise LookupError(f"PyTorch has no {header} any more, in which {name} was")
        yield f"[{name} in {header}]"
        methods = virtual_methods(file.read_text(encoding="utf-8"), name)
        yield from (without_parameter_names(method.declaration) for method in methods)
        yield ""


_PARAMETER = re.compile(
    r"(?:\[\[\w+\]\] )?(?P<type>(?!(?:const|unsigned|signed|long) \w+(?: = |$))[^=]*?[\w>&*]) (?P<name>[a-z_]\w*)"
    r"(?P<default> = .*)?"
)


def without_parameter_names(declaration: str) -> str:
    """A declaration with only the types of its parameters: renaming a parameter changes nothing."""
    start, end = declaration.find("(") + 1, declaration.rfind(")")
    if not 0 < start <= end:
        return declaration
    kept = []
    for parameter in _split(declaration[start:end]):
        match = _PARAMETER.fullmatch(parameter.strip())
        kept.append(match["type"] + (match["default"] or "") if match else parameter.strip())
    return f"{declaration[:start]}{', '.join(kept)}{declaration[end:]}"


def _split(parameters: str) -> Iterator[str]:
    """The parameters of a list, split at the commas outside of template arguments."""
    depth = start = 0
    for index, sign in enumerate(parameters):
        depth += (sign in "<({") - (sign in ">)}")
        if sign == "," and depth == 0:
            yield parameters[start:index]
            start = index + 1
    if parameters.strip():
        yield parameters[start:]


def operators(schemas: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """The schema of each operator; one that is gone is listed without a schema."""
    known = {schema.partition("(")[0]: schema for schema in schemas}
    yield f"[{OPERATORS}]"
    yield from (known.get(name, f"{name}: no such operator") for name in sorted(names))


def names_in(text: str) -> set[str]:
    """The operators that the text of a surface lists."""
    lines = text.partition(f"[{OPERATORS}]\n")[2].partition("\n\n")[0].splitlines()
    return {line.partition("(")[0].partition(": ")[0] for line in lines}


def current(names: Iterable[str]) -> str:
    """The text of the file for the installed PyTorch. Throws: ``LookupError``."""
    pytorch = _ask(_PYTORCH)
    package = Path(pytorch["file"]).parent
    kernels = (f"{name}: {', '.join(keys)}" for name, keys in pytorch["kernels"].items() if keys)
    sections = (
        operators(pytorch["schemas"], names),
        (f"[{DISPATCH}]", *kernels),
        (f"[{STUBS}]", *sorted(stub.name for stub in declared_stubs(package / "include"))),
        (f"[{DTYPES}]", *pytorch["dtypes"]),
        (f"[{NAMES}]", *(f"{name}: {', '.join(files)}" for name, files in pytorch["names"].items())),
    )
    return "\n".join([*interfaces(package / "include"), "\n\n".join("\n".join(lines) for lines in sections)]) + "\n"


def stale(file: Path = FILE) -> Iterator[str]:
    """Yields how the file differs from the installed PyTorch, and from the operators that the backend registers."""
    if not file.is_file():
        yield f"{file} is missing: run `make surface`"
        return
    written = file.read_text(encoding="utf-8")
    # Only for the default driver with host kernels: another one may register fewer operators.
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
    changes = difference(written, found, str(file), "the installed PyTorch")
    if changes:
        yield changes
        yield f"{file}: PyTorch is not what this backend was written against; {CURE}"


def difference(before: str, after: str, name: str, other: str) -> str:
    """The diff of two surfaces; empty, if they are equal."""
    lines = unified_diff(before.splitlines(), after.splitlines(), name, other, "", "", 1)
    return "\n".join(line.rstrip("\n") for line in lines)


def main() -> None:
    """Writes the file. If the backend does not load, as with a new release, the operators of the old file are used."""
    names = _registered() or names_in(FILE.read_text(encoding="utf-8"))
    file = result(FILE)
    file.write_text(current(names), encoding="utf-8")
    print(f"make surface: {len(INTERFACES)} interfaces and {len(names)} operators are in {file}")


def _registered() -> set[str] | None:
    """The operators that the backend registers, or None if it cannot be loaded."""
    try:
        return set(_ask(_REGISTERED))
    except LookupError:
        return None


def _ask(code: str) -> Any:
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise LookupError(ran.stderr.strip().rpartition("\n")[2])
    return json.loads(ran.stdout)


if __name__ == "__main__":
    differences = list(stale())
    print(*differences or [f"{FILE} holds"], sep="\n")
    sys.exit(bool(differences))
