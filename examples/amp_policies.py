"""Asks each operator that is registered for autocast what it does to its arguments, and prints the operators by policy.

No operator runs. One step below autocast, where autograd would be, a function is registered in its place that looks at
what arrives and raises. So arguments need only be of the right type, and the schema says which that is.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from typing import Any

import torch

HALF, FLOAT = torch.bfloat16, torch.float32


# LITERALINCLUDE START: amp-policies-look
class Arrived(Exception):
    """What autocast hands on: the overload that it calls, the dtypes of the tensors, the dtypes that are arguments."""

    def __init__(self, overload: torch._ops.OpOverload, arguments: list[Any]) -> None:
        self.overload = overload
        self.tensors = [value.dtype for value in arguments if isinstance(value, torch.Tensor)]
        self.options = [value for value in arguments if isinstance(value, torch.dtype)]


def look_at(library: torch.library.Library, overload: torch._ops.OpOverload) -> None:
    """Has the overload raise what it is called with, in the place of autograd."""

    def arrive(*arguments: Any, **options: Any) -> Any:
        raise Arrived(overload, torch.utils._pytree.tree_leaves((arguments, options)))

    library.impl(overload, arrive, "AutogradPrivateUse1")


def argument_of(kind: Any, dtypes: list[torch.dtype]) -> Any:
    """Any value of the type; tensors take their dtypes from the list in turn, and leave the last one in it."""
    if isinstance(kind, torch.TensorType):
        return torch.ones(1, device="openreg", dtype=dtypes.pop(0) if len(dtypes) > 1 else dtypes[0])
    if isinstance(kind, torch.ListType):
        return [argument_of(kind.getElementType(), dtypes) for _ in range(2)]
    if isinstance(kind, torch.OptionalType):
        inner = kind.getElementType()
        return argument_of(inner, dtypes) if isinstance(inner, torch.TensorType) else None
    return {"bool": False, "str": "none"}.get(str(kind), 1)


def arrived(overload: torch._ops.OpOverload, *dtypes: torch.dtype) -> Arrived:
    """Calls the overload inside autocast, with tensors of these dtypes, and says what came out of it."""
    left = list(dtypes)
    arguments = [argument_of(argument.type, left) for argument in overload._schema.arguments if not argument.kwarg_only]
    try:
        with torch.autocast("openreg", dtype=HALF):
            overload(*arguments)
    except Arrived as call:
        return call
    raise AssertionError(f"{overload} has not been called")


def policy(overload: torch._ops.OpOverload) -> str:
    """What the operator's registration for autocast does."""
    try:
        from_half = arrived(overload, HALF)
    except NotImplementedError:
        return "refused"
    if from_half.overload != overload:
        return f"calls the overload {from_half.overload._overloadname} with {from_half.options[0]}"
    if from_half.options == [FLOAT]:
        return "argument dtype=float32"
    if set(from_half.tensors) == {FLOAT}:
        return "tensors to float32"
    if set(arrived(overload, FLOAT).tensors) == {HALF}:
        return "tensors to the lower precision"
    return "tensors to the widest dtype" if set(arrived(overload, HALF, FLOAT).tensors) == {FLOAT} else "as given"
# LITERALINCLUDE END: amp-policies-look


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
