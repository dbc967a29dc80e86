"""Looks up an operator that reads a stub in PyTorch's own description of its operators."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path("csrc", "kernels", "library")))

from generate_structured import NATIVE, shared_kernel
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import DispatchKey, NativeFunctionsGroup

STRUCTURED = "structured"  # the impl of a structured kernel that CPU and CUDA share
NATIVE_FUNCTION = "native"  # a function that CPU and CUDA share
COMPOSITE = "composite"  # a function for all devices
CPU_ONLY = "cpu"  # a function or class for the CPU only
ELSEWHERE = "elsewhere"  # an operator without a kernel for dense CPU tensors, or not in aten


@dataclass(frozen=True)
class Reader:
    """An operator that reads a stub; all overloads of a structured one count as one, named after `out`."""

    name: str
    kind: str
    kernel: str  # the function or class that computes on the CPU
    overloads: tuple[str, ...]
    functional: str = ""  # for a structured one, the overload that allocates its results


def readers() -> dict[str, Reader]:
    """All readers, by the name of each overload in aten."""
    parsed = parse_native_yaml(str(NATIVE / "native_functions.yaml"), str(NATIVE / "tags.yaml"))
    cpu = parsed.backend_indices[DispatchKey.CPU]

    def found() -> Iterator[Reader]:
        for entry in get_grouped_native_functions(parsed.native_functions):
            if isinstance(entry, NativeFunctionsGroup) and entry.structured:
                kernel = shared_kernel(parsed, entry)
                own = cpu.get_kernel(entry)
                yield Reader(
                    str(entry.out.func.name),
                    STRUCTURED if kernel else CPU_ONLY,
                    own.kernel if own else "",
                    tuple(str(function.func.name) for function in entry.functions()),
                    str(entry.functional.func.name),
                )
                continue
            for function in entry.functions() if isinstance(entry, NativeFunctionsGroup) else [entry]:
                name, own = str(function.func.name), cpu.get_kernel(function)
                if own is not None:
                    kind = NATIVE_FUNCTION if shared_kernel(parsed, function) else CPU_ONLY
                else:
                    kind = COMPOSITE if function.has_composite_kernel else ELSEWHERE
                yield Reader(name, kind, own.kernel if own else "", (name,))

    return {overload: reader for reader in found() for overload in reader.overloads}


def reader_of(known: dict[str, Reader], operator: str) -> Reader:
    """The reader for an operator, given its name with namespace."""
    name = operator.removeprefix("aten::")
    return known[name] if name in known and name != operator else Reader(operator, ELSEWHERE, "", (operator,))
