"""Names that a device module may have but this one lacks, each with the reason, which the error reports."""

from __future__ import annotations

# LITERALINCLUDE START: absent-names
_NO_INDUCTOR = "it generates no code for the device; use torch.compile with the backend 'eager' or 'aot_eager'"
_NO_POOLS = "its allocator has no pools apart from its own; allocate without one"
_NO_GRAPHS = "it captures no graphs; run the operators one by one, as a program without graphs does"

ABSENT = {
    # All four or none: Inductor registers a device only if it finds all four.
    "Scheduling": _NO_INDUCTOR,
    "PythonWrapperCodegen": _NO_INDUCTOR,
    "CppWrapperCodegen": _NO_INDUCTOR,
    "WrapperFxCodegen": _NO_INDUCTOR,
    "_inductor_backend_init": _NO_INDUCTOR,
    "MemPool": _NO_POOLS,
    "use_mem_pool": _NO_POOLS,
    "Graph": _NO_GRAPHS,
    "graph": _NO_GRAPHS,
    "make_graphed_callables": _NO_GRAPHS,
    "is_current_stream_capturing": _NO_GRAPHS,
    "sparse": "it has no sparse tensors; convert with to_dense() before the copy to the device",
}


def missing(name: str) -> AttributeError:
    """The error for a name that the device module does not have.

    It must be an AttributeError: PyTorch probes with `hasattr` and `getattr`, which propagate every other exception.
    """
    reason = f": {ABSENT[name]}" if name in ABSENT else ""
    return AttributeError(f"module 'torch.openreg' has no attribute {name!r}{reason}", name=name)


# LITERALINCLUDE END: absent-names
