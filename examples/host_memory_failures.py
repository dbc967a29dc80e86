"""Pinned memory that is freed after its stream was destroyed, or in another process."""

from __future__ import annotations

import os

import torch
from driver_memory import call, new  # type: ignore[import-not-found]  # beside this script


# LITERALINCLUDE START: host-memory-failures
def main() -> None:
    """Frees pinned memory after its stream was destroyed, and looks for it in the cache; then in a forked child."""
    source = torch.arange(4.0).pin_memory()
    address = source.data_ptr()
    stream = torch.openreg.get_stream_from_external(new("orStreamCreate"))
    with torch.openreg.stream(stream):
        copied = source.to("openreg", non_blocking=True)
    call("orStreamDestroy", stream.native_handle)
    del source
    print("in the cache again:", torch.empty(4).pin_memory().data_ptr() == address, copied.tolist())
    inherited = torch.arange(4.0).pin_memory()
    if (child := os.fork()) == 0:
        del inherited
        os._exit(7)
    print("child:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), inherited.tolist())


# LITERALINCLUDE END: host-memory-failures


if __name__ == "__main__":
    main()
