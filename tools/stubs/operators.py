"""What PyTorch's own description of its operators says about one that reads a stub."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path("csrc", "kernels", "library")))

from generate_structured import NATIVE, shared_kernel
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import DispatchKey, NativeFunctionsGroup

STRUCTURED = "structured"  # the second half of a class, which CPU and CUDA share
NATIVE_FUNCTION = "native"  # a function that CPU and CUDA share
COMPOSITE = "composite"  # a function for all devices
CPU_ONLY = "cpu"  # a function or class for the CPU alone
ELSEWHERE = "elsewhere"  # an operator that has no kernel for dense tensors of the CPU, or is not of aten


@dataclass(frozen=True)
class Reader:
    """An operator that reads a stub; of a structured one all overloads are one, by the name of `out`."""

    name: str
    kind: str
    kernel: str  # the function or class that computes on the CPU
    overloads: tuple[str, ...]
    functional: str = ""  # of a structured one, the overload that allocates its results


def readers() -> dict[str, Reader]:
    """By the name of each overload of aten."""
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
    """The reader of an operator by its name with namespace."""
    name = operator.removeprefix("aten::")
    return known[name] if name in known and name != operator else Reader(operator, ELSEWHERE, "", (operator,))
