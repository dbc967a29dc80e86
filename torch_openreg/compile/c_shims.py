"""The C functions through which generated C++ calls an operator, one for each operator that the code calls.

PyTorch has them for its own devices, written by torchgen when PyTorch is built. The torchgen of the installed release
writes them here, so that they have the signatures that its Inductor expects.
"""

from __future__ import annotations

import re
from functools import cache

import torch
from torchgen.aoti.fallback_ops import inductor_fallback_ops
from torchgen.api import cpp
from torchgen.gen_aoti_c_shim import gen_declaration_and_definition
from torchgen.model import FunctionSchema

# LITERALINCLUDE START: compile-c-shims
_CALLED = re.compile(r"\baoti_torch_openreg_(\w+)\(")


@cache
def _operators() -> dict[str, str]:
    """The operators for which Inductor calls a C function, by the end of that function's name."""
    return {
        name.removeprefix("aten.").removesuffix(".default").replace(".", "_"): name for name in inductor_fallback_ops
    }


def _definition(function: str) -> str:
    """C++ that includes an operator and defines the C function that calls it through the dispatcher."""
    name = _operators().get(re.sub(r"_v\d+$", "", function))  # a later version of a function has a number
    if name is None:
        raise NotImplementedError(
            f"openreg: generated C++ calls aoti_torch_openreg_{function}, and torchgen has no operator of that name in "
            "inductor_fallback_ops; use torch.compile without cpp_wrapper (TORCHINDUCTOR_CPP_WRAPPER=0)"
        )
    _, operator, overload = name.split(".")
    schema = FunctionSchema.parse(
        str(getattr(getattr(torch.ops.aten, operator), overload)._schema).removeprefix("aten::")
    )
    if schema.is_out_fn():
        # The C function takes the result first, as the function of C++ does, and not last, as the schema says.
        call = f"at::{cpp.name(schema, symint_overload=schema.has_symint())}"
    else:
        call = f"at::_ops::{schema.name.unambiguous_name()}::call"
    versions = inductor_fallback_ops[name]
    _, definition = gen_declaration_and_definition(schema, "openreg", call, versions)
    return f"#include <ATen/ops/{schema.name.name.base}.h>\nnamespace {{\n{definition}}}\n"


def c_shims(code: str) -> str:
    """C++ source of the functions that generated C++ calls.

    Raises:
        NotImplementedError: for a function that torchgen cannot write.
    """
    functions = sorted(set(_CALLED.findall(code)))
    if not functions:
        return ""
    return "#include <torch/csrc/inductor/aoti_torch/utils.h>\n" + "".join(map(_definition, functions))


# LITERALINCLUDE END: compile-c-shims
