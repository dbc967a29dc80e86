"""The function through which the device calls a generated kernel: the launch passes all arguments in one form."""

from __future__ import annotations

from collections.abc import Sequence

# LITERALINCLUDE START: compile-entry-point
# The launch passes numbers and addresses of eight bytes; only the generated source knows the kernel's own types.
ARGUMENT = "union CompiledArgument { void* pointer; int64_t integer; double real; };"
_ENTRY = """
extern "C" void {entry}(const CompiledArgument* arguments) {{
    {kernel}({values});
}}
"""


def _converted(position: int, cpp_type: str) -> str:
    """The C++ expression for an argument of a type, such as `const float*`, `const int64_t` or `const float`."""
    argument = f"arguments[{position}]"
    if cpp_type.endswith("*"):
        return f"static_cast<{cpp_type}>({argument}.pointer)"
    number = cpp_type.removeprefix("const ")
    return f"{argument}.integer" if number == "int64_t" else f"static_cast<{number}>({argument}.real)"


def entry_point(entry: str, kernel: str, cpp_types: Sequence[str]) -> str:
    """C++ source of the function `entry`, which converts the arguments of a launch and calls `kernel`."""
    values = ", ".join(_converted(*numbered) for numbered in enumerate(cpp_types))
    return _ENTRY.format(entry=entry, kernel=kernel, values=values)


def library(kernel: str, cpp_types: Sequence[str]) -> str:
    """C++ source of a library: that of a function `generated`, with its entry point, `kernel`."""
    return f"{kernel}\n{ARGUMENT}{entry_point('kernel', 'generated', cpp_types)}"


# LITERALINCLUDE END: compile-entry-point
