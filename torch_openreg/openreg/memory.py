"""Device memory: what is in use, what is cached, and how much this process may use.

The figures are PyTorch's own (`torch.accelerator.memory_stats`), under the names that users of other accelerators know.
All sizes are in bytes. Before the device is first used, each figure is 0. To read or reset figures does not start the
device; `mem_get_info` and `memory_snapshot` do.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable
from typing import Any, Literal

import torch

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init
from torch_openreg.openreg._utils import _resolved, _resolved_if_in_use

_Device = torch.device | int | str | None


# LITERALINCLUDE START: memory-names
def empty_cache() -> None:
    """Returns cached memory that no tensor uses to the driver. Waits for recorded streams, without the GIL."""
    _C._empty_cache()


def mem_get_info(device: _Device = None) -> tuple[int, int]:
    """Free and total bytes of the device. Cached memory counts as used."""
    return torch.accelerator.get_memory_info(_resolved(device))


def memory_stats(device: _Device = None) -> dict[str, Any]:
    """All figures by name, as returned by `torch.accelerator.memory_stats`: none before the device is first used."""
    return torch.accelerator.memory_stats(_resolved_if_in_use(device))


def memory_allocated(device: _Device = None) -> int:
    """Bytes in tensors, as rounded up by the allocator. Tensors in memory that processes share are not counted."""
    return torch.accelerator.memory_allocated(_resolved_if_in_use(device))


def max_memory_allocated(device: _Device = None) -> int:
    """The peak of `memory_allocated` since the start or the last `reset_peak_memory_stats`."""
    return torch.accelerator.max_memory_allocated(_resolved_if_in_use(device))


def memory_reserved(device: _Device = None) -> int:
    """Bytes obtained from the driver: in tensors and in the cache."""
    return torch.accelerator.memory_reserved(_resolved_if_in_use(device))


def max_memory_reserved(device: _Device = None) -> int:
    """The peak of `memory_reserved` since the start or the last `reset_peak_memory_stats`."""
    return torch.accelerator.max_memory_reserved(_resolved_if_in_use(device))


def reset_peak_memory_stats(device: _Device = None) -> None:
    """Sets every peak to the current value."""
    torch.accelerator.reset_peak_memory_stats(_resolved_if_in_use(device))


def reset_accumulated_memory_stats(device: _Device = None) -> None:
    """Sets every total of allocations and frees to 0."""
    torch.accelerator.reset_accumulated_memory_stats(_resolved_if_in_use(device))


# LITERALINCLUDE END: memory-names


def set_per_process_memory_fraction(fraction: float, device: _Device = None) -> None:
    """Limits the memory of this process's tensors to a fraction of the device's.

    As in ``torch.cuda``, the limit is one of the allocator with its cache. Memory that other processes can open is not
    counted: that of ``share_memory_()``, and of large collectives.

    Args:
        fraction: a fraction of the device's total memory, above 0 and at most 1.
        device: the device; by default the current one.

    An allocation beyond the limit raises `torch.OutOfMemoryError`, as if the device had no more memory.
    """
    _C._set_memory_fraction(float(fraction), _resolved(device))


def get_per_process_memory_fraction(device: _Device = None) -> float:
    """The fraction of the device's memory to which this process is limited: 1 without a limit."""
    return _C._memory_fraction(_resolved(device))


def memory_snapshot(device: _Device = None) -> list[dict[str, Any]]:
    """The segments of the device by address, each with its blocks, in the format of `torch.cuda.memory_snapshot`.

    A block's state is `active_allocated`, `active_awaiting_free` (freed, but a recorded stream still uses it) or
    `inactive`.
    """
    return _segments((block, {}) for block in _C._memory_blocks(_resolved(device)))


# LITERALINCLUDE START: memory-segments
def _segments(blocks: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> list[dict[str, Any]]:
    """Groups blocks, given in the order of their addresses, into their segments.

    Each block comes with extra fields for its segment, which are used if it is the first block of the segment.
    """
    segments: list[dict[str, Any]] = []
    for block, of_segment in blocks:
        if block["starts_segment"]:
            segment = {name: block[name] for name in ("device", "address", "stream")}
            sizes = dict.fromkeys(("total_size", "allocated_size", "active_size", "requested_size"), 0)
            kind = "small" if block["small"] else "large"
            segments.append({**segment, "segment_type": kind, **sizes, **of_segment, "blocks": []})
        left_out = ("device", "stream", "small", "starts_segment", "pool")
        shown = {name: value for name, value in block.items() if name not in left_out}
        segment = segments[-1]
        segment["blocks"].append(shown)
        segment["total_size"] += block["size"]
        segment["requested_size"] += block["requested_size"]
        segment["allocated_size"] += block["size"] if block["state"] == "active_allocated" else 0
        segment["active_size"] += block["size"] if block["state"] != "inactive" else 0
    return segments


# LITERALINCLUDE END: memory-segments


# In the order of `TraceEntry::Action` of PyTorch's allocators.
_ACTIONS = _C._memory_actions()


# LITERALINCLUDE START: memory-record-history
def _record_memory_history(
    enabled: Literal["state", "all"] | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "all",
    max_entries: int = sys.maxsize,
    device: _Device = None,
    clear_history: bool = False,
    skip_actions: Iterable[str] | None = None,
) -> None:
    """Records where memory is allocated and freed, as `torch.cuda.memory._record_memory_history` does.

    Args:
        enabled: `"all"`: a history of all allocations and frees, and the stacks of memory in use. `"state"`: only the
            latter. `None`: stop, and discard what was recorded.
        context: which stacks are kept: of memory in use (`"state"`), also of allocations in the history (`"alloc"`),
            also of frees (`"all"`), or none (`None`).
        stacks: `"python"`: frames of Python and TorchScript. `"all"`: also C++ frames, which take seconds to
            symbolize.
        max_entries: how many of the latest entries each device's history keeps. Limit it for long runs: an entry with
            its stack takes a few hundred bytes or more.
        device: the history is that of all devices, whichever is given, as for CUDA.
        clear_history: discard the entries recorded so far.
        skip_actions: the actions of entries that are not kept, such as `"free_requested"`.

    Raises:
        ValueError: for any other value of the first three or of an action, or if `max_entries` is less than 1.
        RuntimeError: if the device does not exist.
    """
    for name, value, valid in (
        ("enabled", enabled, (None, "state", "all")),
        ("context", context, (None, "state", "alloc", "all")),
        ("stacks", stacks, ("python", "all")),
    ):
        if value not in valid:
            raise ValueError(f"openreg: {name} is one of {', '.join(map(repr, valid))}, got {value!r}")
    if max_entries < 1:
        raise ValueError(f"openreg: max_entries is 1 or more, got {max_entries}")
    skipped = set(skip_actions or ())
    if unknown := skipped - set(_ACTIONS):
        raise ValueError(f"openreg: skip_actions are of {', '.join(_ACTIONS)}, got {', '.join(sorted(unknown))}")
    if device is not None:
        _resolved(device)
    if enabled is None:
        _C._stop_memory_history()
        return
    _lazy_init()
    level = (None, "state", "alloc", "all").index(context)
    bits = sum(1 << _ACTIONS.index(action) for action in skipped)
    _C._record_memory_history(level, stacks == "all", max_entries if enabled == "all" else 0, clear_history, bits)


# LITERALINCLUDE END: memory-record-history


# LITERALINCLUDE START: memory-snapshot-with-history
def _snapshot(device: _Device = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """The memory of all devices and the history recorded so far, in the format of `torch.cuda.memory._snapshot`.

    It has all devices, whichever is given, as for CUDA. With `augment_with_fx_traces`, frames of code that torch.fx
    generated also name the lines of the model.
    `segments` are those of `memory_snapshot`, with the frames that allocated each block and each segment.
    `device_traces` has a list of entries for each device. There are no frames unless the history is being recorded.
    """
    _resolved(device)
    segments: list[dict[str, Any]] = []
    traces: list[list[dict[str, Any]]] = []
    for index in range(_C._device_count()):
        blocks, trace = _C._memory_state(index)
        segments += _segments(
            (block, {"segment_pool_id": block["pool"], "is_expandable": False, **of_segment})
            for block, of_segment in blocks
        )
        traces.append(trace)
    snapshot: dict[str, Any] = {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": {"PYTORCH_ALLOC_CONF": torch._C._accelerator_getAllocatorSettings()},
        "external_annotations": [],
    }
    if augment_with_fx_traces:
        torch._utils._augment_memory_snapshot_stack_traces(snapshot)  # type: ignore[arg-type] # changes it in place
    return snapshot


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Writes `_snapshot()` to a file that PyTorch's memory viewer (pytorch.org/memory_viz) can open."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(augment_with_fx_traces=augment_with_fx_traces), file)


# LITERALINCLUDE END: memory-snapshot-with-history


def memory_summary(device: _Device = None, abbreviated: bool = False) -> str:
    """The figures of `memory_stats` as a table: current, peak, and the totals; if `abbreviated`, only two rows."""
    stats = memory_stats(device)
    rows = {
        "Tensors": "allocated_bytes",
        "Requested": "requested_bytes",
        "Active": "active_bytes",
        "Reserved": "reserved_bytes",
        "Split, free": "inactive_split_bytes",
    }
    lines = [f"{'bytes':<12}" + "".join(f"{title:>18}" for title in ("now", "peak", "allocated", "freed"))]
    for title, name in rows.items():
        if abbreviated and title not in ("Tensors", "Reserved"):
            continue
        figures = (stats.get(f"{name}.all.{what}", 0) for what in ("current", "peak", "allocated", "freed"))
        lines.append(f"{title:<12}" + "".join(f"{figure:>18,}" for figure in figures))
    retries, failures = (stats.get(name, 0) for name in ("num_alloc_retries", "num_ooms"))
    lines.append(f"retries after emptying the cache: {retries}, out of memory: {failures}")
    return "\n".join(lines)


def host_memory_stats() -> dict[str, int]:
    """Statistics of PyTorch's pinned-memory cache, with the keys of `torch.cuda.host_memory_stats` but for times."""
    return _C._host_memory_stats()


def reset_peak_host_memory_stats() -> None:
    """Sets every peak of `host_memory_stats` to the current value."""
    _C._reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Sets every total of `host_memory_stats` to 0."""
    _C._reset_accumulated_host_memory_stats()
