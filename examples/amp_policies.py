"""Finds out what autocast does to the arguments of each registered operator, and prints the operators by policy.

No operator runs: one step below autocast, a function registered in place of autograd records the call and raises.
Arguments therefore need only the right type, which the schema gives.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch

HALF, FLOAT = torch.bfloat16, torch.float32


# LITERALINCLUDE START: amp-policies-look
class Arrived(Exception):
    """Ends a call below autocast."""


@dataclass
class Call:
    """What autocast passes on: the overload, the dtypes of the tensors, and the dtypes passed as arguments."""

    overload: torch._ops.OpOverload
    tensors: list[torch.dtype]
    options: list[torch.dtype]


calls: list[Call] = []


def look_at(library: torch.library.Library, overload: torch._ops.OpOverload) -> None:
    """Records the calls of the overload, in place of autograd."""

    def note(*arguments: Any, **options: Any) -> Any:
        values = torch.utils._pytree.tree_leaves((arguments, options))
        tensors = [value.dtype for value in values if isinstance(value, torch.Tensor)]
        calls.append(Call(overload, tensors, [value for value in values if isinstance(value, torch.dtype)]))
        raise Arrived

    library.impl(overload, note, "AutogradPrivateUse1")


# LITERALINCLUDE END: amp-policies-look


# LITERALINCLUDE START: amp-policies-call
def argument_of(kind: Any, dtypes: list[torch.dtype]) -> Any:
    """Any value of the type. Tensors take their dtypes from the list in turn; the last dtype stays in it."""
    if isinstance(kind, torch.TensorType):
        return torch.ones(1, device="openreg", dtype=dtypes.pop(0) if len(dtypes) > 1 else dtypes[0])
    if isinstance(kind, torch.ListType):
        return [argument_of(kind.getElementType(), dtypes) for _ in range(2)]
    if isinstance(kind, torch.OptionalType):
        inner = kind.getElementType()
        return argument_of(inner, dtypes) if isinstance(inner, torch.TensorType) else None
    return {"bool": False, "str": "none"}.get(str(kind), 1)


def handed_on(overload: torch._ops.OpOverload, *dtypes: torch.dtype) -> Call:
    """Calls the overload inside autocast, with tensors of these dtypes, and returns what autocast passed on."""
    left = list(dtypes)
    arguments = [argument_of(argument.type, left) for argument in overload._schema.arguments if not argument.kwarg_only]
    with contextlib.suppress(Arrived), torch.autocast("openreg", dtype=HALF):
        overload(*arguments)
    return calls.pop()


def policy(overload: torch._ops.OpOverload) -> str:
    """What the operator's registration for autocast does."""
    try:
        call = handed_on(overload, HALF)
    except NotImplementedError:
        return "refused"
    if call.overload != overload:
        return "the overload that takes a dtype, with float32"
    if call.options == [FLOAT]:
        return "float32 as dtype"
    if set(call.tensors) == {FLOAT}:
        return "tensors to float32"
    if set(handed_on(overload, FLOAT).tensors) == {HALF}:
        return "tensors to the lower precision"
    return "tensors to the widest dtype" if set(handed_on(overload, HALF, FLOAT).tensors) == {FLOAT} else "nothing"


# LITERALINCLUDE END: amp-policies-call


def main() -> None:
    """Prints all operators that are registered for the key, by policy."""
    library = torch.library.Library("aten", "IMPL")
    names = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastPrivateUse1")
    registered = []
    for name in sorted(names):
        packet, _, overload = name.removeprefix("aten::").partition(".")
        registered.append(getattr(getattr(torch.ops.aten, packet), overload or "default"))
    redispatched = [getattr(torch.ops.aten.norm, name) for name in ("ScalarOpt_dtype", "ScalarOpt_dim_dtype")]
    for overload in [*registered, *redispatched]:
        look_at(library, overload)
    found = defaultdict(list)
    for overload in registered:
        found[policy(overload)].append(str(overload).removeprefix("aten.").removesuffix(".default"))
    for meaning, operators in found.items():
        print(f"{meaning}: {len(operators)}")
        print(textwrap.fill(" ".join(operators), 110, initial_indent="    ", subsequent_indent="    "))


if __name__ == "__main__":
    main()
