"""Names that a device module may have and this one has not, with the reason, so that a user need not guess."""

from __future__ import annotations

# LITERALINCLUDE START: absent-names
_NO_INDUCTOR = "it generates no code for the device; use torch.compile with the backend 'eager' or 'aot_eager'"
_NO_GRAPHS = "it captures no graphs; run the operators one by one, as a program without graphs does"

ABSENT = {
    # All four, or none: Inductor takes a device up only when it finds the four.
    "Scheduling": _NO_INDUCTOR,
    "PythonWrapperCodegen": _NO_INDUCTOR,
    "CppWrapperCodegen": _NO_INDUCTOR,
    "WrapperFxCodegen": _NO_INDUCTOR,
    "Graph": _NO_GRAPHS,
    "graph": _NO_GRAPHS,
    "make_graphed_callables": _NO_GRAPHS,
    "is_current_stream_capturing": _NO_GRAPHS,
    "sparse": "it has no sparse tensors; convert with to_dense() before the copy to the device",
}


def missing(name: str) -> AttributeError:
    """The error for a name that the device module has not.

    An AttributeError and no other: PyTorch probes with `hasattr` and `getattr`, for which every other error is one.
    """
    reason = f": {ABSENT[name]}" if name in ABSENT else ""
    return AttributeError(f"module 'torch.openreg' has no attribute {name!r}{reason}", name=name)


# LITERALINCLUDE END: absent-names
