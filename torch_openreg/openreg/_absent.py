"""Names that the device module lacks, each with the reason that its error gives, and names that it looks up late."""

from __future__ import annotations

from collections.abc import Callable

# LITERALINCLUDE START: late-names
# Names whose values are imported when they are first looked up, since most programs never need them.
LATE: dict[str, Callable[[], object]] = {}
# LITERALINCLUDE END: late-names

# LITERALINCLUDE START: absent-names
_NO_POOLS = "its allocator has no pools apart from its own; allocate without one"
_NO_GRAPHS = "use torch.accelerator.Graph, which captures on every accelerator"

ABSENT = {
    "MemPool": _NO_POOLS,
    "use_mem_pool": _NO_POOLS,
    "Graph": _NO_GRAPHS,
    "graph": _NO_GRAPHS,
    "ExternalStream": "use get_stream_from_external",
    "StreamContext": "use stream, or the stream itself, in a with statement",
    "can_device_access_peer": "copy from device to device, which works between any two",
    "sparse": "it has no sparse tensors; convert with to_dense() before the copy to the device",
}


def missing(name: str) -> AttributeError:
    """The error for a name that the device module does not have.

    It must be an AttributeError: PyTorch probes with `hasattr` and `getattr`, which propagate every other exception.
    """
    reason = f": {ABSENT[name]}" if name in ABSENT else ""
    return AttributeError(f"module 'torch.openreg' has no attribute {name!r}{reason}", name=name)


# LITERALINCLUDE END: absent-names
