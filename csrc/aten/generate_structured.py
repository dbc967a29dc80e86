"""Writes the C++ that registers structured operators for the device: ``structured_0.cpp`` and so on.

What a structured operator is, and its schemas, PyTorch says itself: torchgen, which is part of its package, reads the
same native_functions.yaml from which PyTorch's own kernels were generated. For each operator of structured.toml this
writes a class with what is known about it, and a function of one line for each of its overloads. The work that they
share is in structured.h.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torchgen
from torchgen.api import cpp, meta
from torchgen.api.types import NativeSignature
from torchgen.context import native_function_manager
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import DeviceCheckType, NativeFunction, NativeFunctionsGroup, SchemaKind

NATIVE = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
LIST = Path(__file__).with_name("structured.toml")
FILE = """\
// Written by csrc/aten/generate_structured.py. Do not edit.
#include <ATen/core/Tensor.h>
{includes}
#include <torch/library.h>

#include "aten/host_library.h"
#include "aten/structured.h"

namespace openreg {{
namespace {{

{definitions}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {{
{registrations}
}}

}}  // namespace
}}  // namespace openreg
"""


@dataclass
class Operator:
    """One operator with one kernel, its overloads, and how the device runs it."""

    functions: dict[str, NativeFunction]  # by their kind: functional, out, in_place or in_place_only
    waits: bool
    meta: str = ""  # the class with PyTorch's meta function, where there is one

    @property
    def first(self) -> NativeFunction:
        """The overload whose arguments are those of the kernel."""
        return next(iter(self.functions.values()))

    @property
    def last(self) -> NativeFunction:
        """The overload whose function for the CPU is the kernel: what is written stands among its arguments."""
        return self.functions.get("out", self.first)

    @property
    def name(self) -> str:
        """The name of its class."""
        return str(self.last.func.name).replace("_.", "_").replace(".", "_")


def structured(group: NativeFunctionsGroup, waits: bool) -> Operator:
    """A structured operator, with its two or three overloads."""
    functions = {"functional": group.functional, "out": group.out}
    if group.inplace is not None:
        functions["in_place"] = group.inplace
    return Operator(functions, waits, f"at::meta::structured_{meta.name(group)}")


def read() -> list[Operator]:
    """The operators of the list, in its order. Throws: ``ValueError`` for a name that PyTorch does not know."""
    parsed = parse_native_yaml(str(NATIVE / "native_functions.yaml"), str(NATIVE / "tags.yaml")).native_functions
    groups = {
        str(group.out.func.name): group
        for group in get_grouped_native_functions(parsed)
        if isinstance(group, NativeFunctionsGroup) and group.structured
    }
    in_place = {
        str(function.func.name): function
        for function in parsed
        if function.func.kind() is SchemaKind.inplace and function.structured_delegate is None
    }
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))
    operators: dict[str, Operator] = {}
    for kind, known in (("structured", groups), ("in_place", in_place)):
        for family in listed[kind]:
            for name in family["operators"]:
                if name not in known:
                    raise ValueError(f"{LIST.name}: [[{kind}]] has no operator {name!r}")
                if name in operators:
                    raise ValueError(f"{LIST.name}: {name!r} stands there twice")
                waits = family.get("waits", False)
                operators[name] = (
                    structured(groups[name], waits)
                    if kind == "structured"
                    else Operator({"in_place_only": in_place[name]}, waits)
                )
    return list(operators.values())


def definition(operator: Operator) -> str:
    """The class of an operator, with a function for each of its overloads."""
    constants = [f'kName = "{operator.first.func.name}"', f"kOutputs = {len(operator.last.func.arguments.out)}"]
    if operator.first.device_check is DeviceCheckType.ExactSame:
        names = ", ".join(f'"{argument.name}"' for argument in signature(operator.first).arguments())
        constants.append(f"kOnOneDevice = std::array{{{names}}}")
    lines = [f"struct {operator.name} : LibraryKernel<{operator.name}, {str(operator.waits).lower()}> {{"]
    lines += [f"  using Meta = {operator.meta};"] if operator.meta else []
    lines += [f"  static constexpr auto {constant};" for constant in constants]
    lines += ["", f"  static void compute(auto&&... arguments) {{ {kernel(operator.last)}(arguments...); }}", ""]
    for kind, function in operator.functions.items():
        lines += overload(operator, kind, function)
    return "\n".join(lines) + "\n};\n"


def kernel(function: NativeFunction) -> str:
    """The function of PyTorch for the CPU: the library of this device."""
    is_out = function.func.kind() is SchemaKind.out
    return f"at::cpu::{cpp.name(function.func)}{'f' if is_out else ''}"


def overload(operator: Operator, kind: str, function: NativeFunction) -> Iterator[str]:
    """The function of an overload, which the dispatcher calls."""
    call = f"openreg::{'out_variant' if kind == 'out' else kind}<{operator.name}>"
    names = [argument.name for argument in signature(operator.first).arguments()]
    outputs = [argument.name for argument in function.func.arguments.out]
    yield f"  static {signature(function).decl(name=kind)} {{"
    if kind == "functional":
        yield f"    return {call}({', '.join(names)});"
    elif kind == "out":
        addresses = ", ".join(f"&{output}" for output in outputs)
        result = outputs[0] if len(outputs) == 1 else f"{{{', '.join(outputs)}}}"
        yield f"    {call}({{{addresses}}}, {', '.join(names)});"
        yield f"    return {result};"
    else:
        yield f"    {call}({', '.join(names)});"
        yield "    return self;"
    yield "  }"


def signature(function: NativeFunction) -> NativeSignature:
    """How the dispatcher calls a kernel of this overload."""
    return NativeSignature(function.func, symint=False)


def source(operators: list[Operator]) -> str:
    """A file of C++ for these operators."""
    headers = dict.fromkeys(
        f"{operator.first.root_name}_{kind}"
        for operator in operators
        for kind in ("cpu_dispatch", *(("meta",) if operator.meta else ()))
    )
    definitions = []
    for operator in operators:
        with native_function_manager(operator.first):
            definitions.append(definition(operator))
    registrations = (
        f'  m.impl("{function.func.name}", {operator.name}::{kind});'
        for operator in operators
        for kind, function in operator.functions.items()
    )
    return FILE.format(
        includes="\n".join(f"#include <ATen/ops/{header}.h>" for header in headers),
        definitions="\n".join(definitions),
        registrations="\n".join(registrations),
    )


def main() -> None:
    """Writes the files, as many as are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("outputs", nargs="+", type=Path)
    outputs = parser.parse_args().outputs
    operators = read()
    for i, output in enumerate(outputs):
        output.write_text(source(operators[i :: len(outputs)]), encoding="utf-8")


if __name__ == "__main__":
    main()
