"""Device memory: what is in use, what is cached, and how much this process may have.

The figures are PyTorch's own (`torch.accelerator.memory_stats`); here they have the names that users of other
accelerators know. All are bytes.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init
from torch_openreg.openreg._utils import _resolved

_Device = torch.device | int | str | None


# LITERALINCLUDE START: memory-names
def empty_cache() -> None:
    """Gives the driver back the cached memory that no tensor uses. Waits for streams that were recorded."""
    torch.accelerator.empty_cache()


def mem_get_info(device: _Device = None) -> tuple[int, int]:
    """Free and total bytes of the device. Cached memory counts as used."""
    return torch.accelerator.get_memory_info(_resolved(device))


def memory_stats(device: _Device = None) -> dict[str, Any]:
    """All figures by name, as `torch.accelerator.memory_stats` has them."""
    return torch.accelerator.memory_stats(_resolved(device))


def memory_allocated(device: _Device = None) -> int:
    """Bytes in tensors, as the allocator rounded them."""
    return torch.accelerator.memory_allocated(_resolved(device))


def max_memory_allocated(device: _Device = None) -> int:
    """The most that `memory_allocated` has been since the start or `reset_peak_memory_stats`."""
    return torch.accelerator.max_memory_allocated(_resolved(device))


def memory_reserved(device: _Device = None) -> int:
    """Bytes held of the driver: in tensors and in the cache."""
    return torch.accelerator.memory_reserved(_resolved(device))


def max_memory_reserved(device: _Device = None) -> int:
    """The most that `memory_reserved` has been since the start or `reset_peak_memory_stats`."""
    return torch.accelerator.max_memory_reserved(_resolved(device))


def reset_peak_memory_stats(device: _Device = None) -> None:
    """Sets every peak to what is in use now."""
    torch.accelerator.reset_peak_memory_stats(_resolved(device))


def reset_accumulated_memory_stats(device: _Device = None) -> None:
    """Sets every sum of allocations and frees to 0."""
    torch.accelerator.reset_accumulated_memory_stats(_resolved(device))


# LITERALINCLUDE END: memory-names


def set_per_process_memory_fraction(fraction: float, device: _Device = None) -> None:
    """Lets this process hold no more than a fraction of the device's memory.

    Args:
        fraction: over 0 and up to 1, of all the device's memory.
        device: the device; by default the current one.

    More than that raises `torch.OutOfMemoryError`, as if the device had no more.
    """
    _C._set_memory_fraction(float(fraction), _resolved(device))


def memory_snapshot(device: _Device = None) -> list[dict[str, Any]]:
    """The segments of the device by address, each with its blocks, in the form of `torch.cuda.memory_snapshot`.

    A block's state is `active_allocated`, `active_awaiting_free` (freed, but a recorded stream still uses it) or
    `inactive`.
    """
    segments: list[dict[str, Any]] = []
    for block in _C._memory_blocks(_resolved(device)):
        if block["starts_segment"]:
            segment = {name: block[name] for name in ("device", "address", "stream")}
            sizes = dict.fromkeys(("total_size", "allocated_size", "active_size", "requested_size"), 0)
            segments.append({**segment, "segment_type": "small" if block["small"] else "large", **sizes, "blocks": []})
        shown = {name: block[name] for name in ("address", "size", "requested_size", "state")}
        segment = segments[-1]
        segment["blocks"].append(shown)
        segment["total_size"] += block["size"]
        segment["requested_size"] += block["requested_size"]
        segment["allocated_size"] += block["size"] if block["state"] == "active_allocated" else 0
        segment["active_size"] += block["size"] if block["state"] != "inactive" else 0
    return segments


def memory_summary(device: _Device = None) -> str:
    """The figures of `memory_stats` as a table: now, at most, and the sums."""
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
        figures = (stats[f"{name}.all.{what}"] for what in ("current", "peak", "allocated", "freed"))
        lines.append(f"{title:<12}" + "".join(f"{figure:>18,}" for figure in figures))
    lines.append(f"retries after emptying the cache: {stats['num_alloc_retries']}, out of memory: {stats['num_ooms']}")
    return "\n".join(lines)


def host_memory_stats() -> dict[str, int]:
    """What PyTorch's cache of pinned memory holds: the figures of `torch.cuda.host_memory_stats`."""
    _lazy_init()
    return _C._host_memory_stats()
