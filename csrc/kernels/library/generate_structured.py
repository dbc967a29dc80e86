"""Writes the C++ that registers operators and stubs for the device: ``structured_0.cpp`` and so on.

Which operators are structured, and their schemas, come from PyTorch: torchgen, a part of its package, reads the
native_functions.yaml from which PyTorch's own kernels were generated. For each structured operator in structured.toml
this writes a class that describes it, with a one-line function for each of its overloads. The code that they share is
in structured.h. PyTorch's functions for all devices, and stubs, need no class, and get one line each.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torchgen
from torchgen.api import cpp, meta
from torchgen.api.types import NativeSignature
from torchgen.context import native_function_manager
from torchgen.gen import ParsedYaml, get_grouped_native_functions, parse_native_yaml
from torchgen.model import (
    BackendIndex,
    BackendMetadata,
    DeviceCheckType,
    DispatchKey,
    NativeFunction,
    NativeFunctionsGroup,
    SchemaKind,
)

NATIVE = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
LIST = Path(__file__).with_name("structured.toml")
FILE = """\
// Written by csrc/kernels/library/generate_structured.py. Do not edit.
#include <ATen/core/Tensor.h>
{includes}
#include <torch/library.h>

#include "kernels/library/host_library.h"
#include "kernels/library/host_loop.h"
#include "kernels/linalg/matrix_product.h"
#include "aten/structured/structured.h"
#include "aten/structured/unsplit.h"

namespace openreg {{
namespace {{

{definitions}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {{
{registrations}
}}

}}  // namespace
}}  // namespace openreg

namespace at::native {{
{stubs}
}}  // namespace at::native
"""


@dataclass
class Operator:
    """One operator with one kernel, its overloads, and how the device runs it."""

    functions: dict[str, NativeFunction]  # by their kind: functional, out, in_place or in_place_only
    last: NativeFunction  # its CPU function is the kernel: what that writes is among its arguments
    waits: bool = False
    meta: str = ""  # the class with PyTorch's meta function, if there is one
    stub: bool = False  # whether that class also has the rest, which calls a stub
    kernel: str = "LibraryKernel"  # the template of its kernel, if there is no stub
    by_cpu: bool = True  # whether the CPU has a function of its own for the last overload
    copied: bool = False  # whether that function resizes or restrides the output it is given
    own_layout: bool = False  # whether it is right for outputs as it would allocate them alone
    impl: str = ""  # the class with PyTorch's second half for the CPU, if that works apart from the first

    @property
    def first(self) -> NativeFunction:
        """The overload whose name is the operator's in messages."""
        return next(iter(self.functions.values()))

    @property
    def name(self) -> str:
        """The name of its class."""
        return str(self.last.func.name).replace("_.", "_").replace(".", "_")


@dataclass
class Function:
    """A function of PyTorch that serves all devices, and is registered as it is."""

    function: NativeFunction
    kernel: str


@dataclass
class Stub:
    """A stub whose loop is the library's."""

    name: str
    header: str
    waits: bool
    mixed: bool  # it takes operands of several dtypes


@dataclass
class Listed:
    """What structured.toml lists."""

    operators: list[Operator]
    functions: list[Function]
    stubs: list[Stub]

    def size(self) -> float:
        """The relative amount of generated code. A stub needs less than an operator."""
        return len(self.operators) + len(self.functions) + 0.3 * len(self.stubs)

    def parts(self, count: int) -> list[Listed]:
        """Splits the list into parts of about the same size, one for each file.

        Operators with the same argument types go into one file, since the compiler instantiates much of the code that
        queues and calls a kernel once for each list of types. All stubs go into the first file.
        """
        groups: dict[tuple[str, ...], Listed] = {}
        for operator in self.operators:
            groups.setdefault(types(operator.last), Listed([], [], [])).operators.append(operator)
        for function in self.functions:
            groups.setdefault(types(function.function), Listed([], [], [])).functions.append(function)
        shares = [Listed([], [], self.stubs), *(Listed([], [], []) for _ in range(count - 1))]
        for group in sorted(groups.values(), key=Listed.size, reverse=True):
            smallest = min(shares, key=Listed.size)
            smallest.operators += group.operators
            smallest.functions += group.functions
        return shares


def structured(group: NativeFunctionsGroup, family: dict[str, object], cpu: BackendMetadata, kernel: str) -> Operator:
    """A structured operator, with its two or three overloads."""
    functions = {"functional": group.functional, "out": group.out}
    if group.inplace is not None:
        functions["in_place"] = group.inplace
    if family.get("through") == "stubs":
        return Operator(functions, group.out, meta=f"at::native::structured_{kernel}", stub=True)
    return Operator(
        functions,
        group.out,
        bool(family.get("waits")),
        f"at::meta::structured_{meta.name(group)}",
        kernel=str(family.get("kernel", Operator.kernel)),
        copied=bool(family.get("copied")),
        own_layout=bool(family.get("own_layout")),
        impl="" if needs_meta(group) or family.get("copied") else f"at::native::structured_{cpu.kernel}",
    )


def needs_meta(group: NativeFunctionsGroup) -> bool:
    """Whether the second half uses what the first has left in the object, or has computed from the arguments."""
    return group.out.structured_inherits is not None or group.out.precomputed is not None


def unsplit(group: NativeFunctionsGroup, family: dict[str, object], meta: str, cpu: BackendIndex) -> Operator:
    """An operator whose meta function is ours (unsplit.h). Overloads that PyTorch generates are left out.

    The launch waits for the errors of PyTorch's function, unless the meta function has checked for all of them.
    """
    functions = {"out": group.out} if "generated" not in group.out.tags else {}
    if group.structured or cpu.has_kernel(group.functional):
        functions = {"functional": group.functional, **functions}
    return Operator(
        functions,
        group.out,
        not family.get("checked"),
        meta,
        kernel=str(family.get("kernel", Operator.kernel)),
        by_cpu=cpu.has_kernel(group.out),
        copied=bool(family.get("copied")),
        own_layout=bool(family.get("own_layout")),
    )


def shared_kernel(parsed: ParsedYaml, function: NativeFunction | NativeFunctionsGroup) -> str:
    """PyTorch's function or class for both the CPU and an accelerator, CUDA or XPU; otherwise an empty string."""

    def kernel(key: DispatchKey) -> str:
        metadata = parsed.backend_indices[key].get_kernel(function)
        return metadata.kernel if metadata else ""

    cpu = kernel(DispatchKey.CPU)
    # For an operator with one formula for all, PyTorch generates a class for each.
    others = {kernel(key).removesuffix(f"_{key}") for key in (DispatchKey.CUDA, DispatchKey.XPU)}
    return cpu if cpu.removesuffix("_CPU") in others else ""


def read() -> Listed:
    """Reads the list, in its order. Throws: ``ValueError`` for a name that is there twice, or in the wrong table."""
    parsed = parse_native_yaml(str(NATIVE / "native_functions.yaml"), str(NATIVE / "tags.yaml"))
    every = {
        str(group.out.func.name): group
        for group in get_grouped_native_functions(parsed.native_functions)
        if isinstance(group, NativeFunctionsGroup)
    }
    groups = {name: group for name, group in every.items() if group.structured}
    single = {
        str(f.func.name): f for f in parsed.native_functions if f.structured_delegate is None and not f.structured
    }
    in_place = {name: f for name, f in single.items() if f.func.kind() is SchemaKind.inplace}
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))
    seen: set[str] = set()

    def entries(table: str, known: Collection[str] | None = None) -> Iterator[tuple[dict[str, object], str]]:
        for family in listed.get(table, []):
            for name in family["stubs" if table == "stubs" else "operators"]:
                if known is not None and name not in known:
                    raise ValueError(f"{LIST.name}: [[{table}]] has no operator {name!r}")
                if name in seen:
                    raise ValueError(f"{LIST.name}: {name!r} stands there twice")
                seen.add(name)
                yield family, name

    result = Listed([], [], [])
    for family, name in entries("structured", groups):
        kernel = shared_kernel(parsed, groups[name])
        if family.get("through") == "stubs" and not kernel:
            raise ValueError(f"{LIST.name}: what computes {name!r} on the CPU is for the CPU alone, and calls no stub")
        cpu = parsed.backend_indices[DispatchKey.CPU].get_kernel(groups[name])
        result.operators.append(structured(groups[name], family, cast("BackendMetadata", cpu), kernel))
    for family, name in entries("unsplit", every):
        metas = cast("dict[str, str]", family["operators"])
        result.operators.append(unsplit(every[name], family, metas[name], parsed.backend_indices[DispatchKey.CPU]))
    for family, name in entries("in_place", in_place):
        function = in_place[name]
        result.operators.append(
            Operator(
                {"in_place_only": function},
                function,
                bool(family.get("waits")),
                kernel=str(family.get("kernel", Operator.kernel)),
            )
        )
    for _, name in entries("native", single):
        kernel = shared_kernel(parsed, single[name])
        if not kernel:
            raise ValueError(f"{LIST.name}: what computes {name!r} on the CPU is for the CPU alone")
        result.functions.append(Function(single[name], kernel))
    for family, name in entries("stubs"):
        result.stubs.append(Stub(name, str(family["header"]), bool(family.get("waits")), bool(family.get("mixed"))))
    return result


def definition(operator: Operator) -> str:
    """The class of an operator, with a function for each of its overloads."""
    constants = [f"kOutputs = {len(operator.last.func.arguments.out)}"]
    one_device = operator.first.device_check is DeviceCheckType.ExactSame
    if one_device or not operator.stub:
        constants.insert(0, f'kName = "{operator.first.func.name}"')
    if one_device:
        names = ", ".join(f'"{name}"' for name in arguments(operator))
        constants.append(f"kOnOneDevice = std::array{{{names}}}")
    if operator.own_layout and "out" in operator.functions:
        constants.append("kOwnLayout = true")
    base = "" if operator.stub else f" : {operator.kernel}<{operator.name}, {literal(operator.waits)}>"
    lines = [f"struct {operator.name}{base} {{"]
    lines += [f"  using Meta = {operator.meta};"] if operator.meta else []
    lines += [f"  static constexpr auto {constant};" for constant in constants]
    if not operator.stub:
        lines += ["", f"  {computation(operator)}"]
    lines.append("")
    for kind, function in operator.functions.items():
        lines += overload(operator, kind, function)
    return "\n".join(lines) + "\n};\n"


def literal(flag: bool) -> str:
    """The flag in C++."""
    return str(flag).lower()


def library_function(operator: Operator) -> str:
    """PyTorch's function for the CPU, which is this device's library."""
    schema = operator.last.func
    namespace = "at::cpu" if operator.by_cpu else "at"
    return f"{namespace}::{cpp.name(schema)}{'f' if schema.kind() is SchemaKind.out else ''}"


def computation(operator: Operator) -> str:
    """The function that calls the library."""
    if operator.impl:
        return f"static void compute(auto&&... arguments) {{ second_half<{operator.impl}>(arguments...); }}"
    if not operator.copied:
        return f"static void compute(auto&&... arguments) {{ {library_function(operator)}(arguments...); }}"
    (output,) = (argument.name for argument in operator.last.func.arguments.out)
    parameters = ", ".join(f"auto&& {name}" for name in (*arguments(operator), output))
    result = f"{library_function(operator).removesuffix('_outf')}({', '.join(arguments(operator))})"
    return f"static void compute({parameters}) {{ {output}.copy_({result}); }}"


def arguments(operator: Operator) -> list[str]:
    """The names of the kernel's inputs. The functional overload of a factory has other arguments."""
    outputs = [argument.name for argument in operator.last.func.arguments.out]
    return [argument.name for argument in signature(operator.last).arguments() if argument.name not in outputs]


def overload(operator: Operator, kind: str, function: NativeFunction) -> Iterator[str]:
    """The function of an overload, which the dispatcher calls."""
    call = f"openreg::{'out_variant' if kind == 'out' else kind}<{operator.name}>"
    names = arguments(operator)
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
    """The signature with which the dispatcher calls a kernel of this overload."""
    return NativeSignature(function.func, symint=False)


def types(function: NativeFunction) -> tuple[str, ...]:
    """The C++ types of the arguments that the dispatcher passes to a kernel."""
    with native_function_manager(function):
        return tuple(argument.type for argument in signature(function).arguments())


def source(listed: Listed) -> str:
    """A C++ source file for the list."""
    headers: dict[str, None] = {}
    for operator in listed.operators:
        root = operator.first.root_name
        suffix = "_native" if operator.stub or operator.impl else "_cpu_dispatch" if operator.by_cpu else ""
        headers[f"ATen/ops/{root}{suffix}.h"] = None
        if operator.meta.startswith("at::meta::"):
            headers[f"ATen/ops/{root}_meta.h"] = None
    headers |= {f"ATen/ops/{function.function.root_name}_native.h": None for function in listed.functions}
    headers |= {f"ATen/native/{stub.header}": None for stub in listed.stubs}
    definitions, registrations = [], []
    for operator in listed.operators:
        with native_function_manager(operator.first):
            definitions.append(definition(operator))
        for kind, overload in operator.functions.items():
            registrations.append(f'  m.impl("{overload.func.name}", {operator.name}::{kind});')
    for entry in listed.functions:
        with native_function_manager(entry.function):
            pointer = signature(entry.function).ptr_type()
        registrations.append(
            f'  m.impl("{entry.function.func.name}", static_cast<{pointer}>(at::native::{entry.kernel}));'
        )
    return FILE.format(
        includes="\n".join(f"#include <{header}>" for header in headers),
        definitions="\n".join(definitions),
        registrations="\n".join(registrations),
        stubs="\n".join(
            f"REGISTER_PRIVATEUSE1_DISPATCH({stub.name}, "
            f'(&openreg::LibraryLoop<"{stub.name.removesuffix("_stub")}", {stub.name}, {literal(stub.waits)}'
            f"{', true' if stub.mixed else ''}>::kernel))"
            for stub in listed.stubs
        ),
    )


def main() -> None:
    """Writes the files that are named, a part of the list to each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("outputs", nargs="+", type=Path)
    outputs = parser.parse_args().outputs
    for output, part in zip(outputs, read().parts(len(outputs)), strict=True):
        output.write_text(source(part), encoding="utf-8")


if __name__ == "__main__":
    main()
