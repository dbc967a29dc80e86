"""Finds the calls that make the host wait for the device."""

from __future__ import annotations

from torch_openreg import _C

_MODES = ("default", "warn", "error")


# LITERALINCLUDE START: sync-debug-python
def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Sets what happens when a call implicitly synchronizes with the device, for the whole process.

    Args:
        debug_mode: `"default"` or 0: nothing. `"warn"` or 1: it warns, with the line of the program. `"error"` or 2: it
            raises `RuntimeError` before it waits.

    Such calls are `item()`, a condition on a tensor, operators with a data-dependent output size (`nonzero`,
    `masked_select`), and copies between host and device, unless they are `non_blocking` and the host's memory is
    pinned, or only read. `synchronize()` of a device, a stream or an event does not count.

    Raises:
        ValueError: for any other value.
    """
    if not isinstance(debug_mode, int | str) or debug_mode not in (*_MODES, *range(len(_MODES))):
        raise ValueError(f"openreg: debug_mode is 'default', 'warn' or 'error', or 0, 1 or 2, got {debug_mode!r}")
    _C._set_sync_debug_mode(_MODES.index(debug_mode) if isinstance(debug_mode, str) else debug_mode)


def get_sync_debug_mode() -> int:
    """The mode as a number: 0 is the default, 1 warns, 2 raises."""
    return _C._get_sync_debug_mode()


# LITERALINCLUDE END: sync-debug-python
