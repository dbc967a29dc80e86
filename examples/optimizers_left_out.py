"""One step of AdamW with fused=True, with this backend's kernel, and with the fallback in its place.

Counts the numbers that are copied between device and host on the way.
"""

from __future__ import annotations

import os

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

import torch
from operator_ladder import load_stand_ins  # type: ignore[import-not-found]  # beside this script


# LITERALINCLUDE START: optimizers-left-out
def copied(optimizer: torch.optim.Optimizer) -> int:
    """Makes a step. Returns how many numbers it copies to or from the host."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        optimizer.step()
    copies = [event for event in profile.events() if event.name == "aten::_copy_from"]
    return sum(torch.Size(event.input_shapes[0]).numel() for event in copies)


def main() -> None:
    """Prints both counts."""
    torch.openreg.reset_fallback_stats()
    layer = torch.nn.Linear(1000, 1000, bias=False, device="openreg")
    layer.weight.grad = torch.ones_like(layer.weight)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    optimizer.step()  # creates the state
    print(f"one kernel:  {copied(optimizer):,} numbers copied, {torch.openreg.fallback_stats()} fell back")
    load_stand_ins()
    torch.ops.operator_ladder.own_fallback(["_fused_adamw_"])
    print(f"left out:    {copied(optimizer):,} numbers copied, {torch.openreg.fallback_stats()} fell back")
    # LITERALINCLUDE END: optimizers-left-out


if __name__ == "__main__":
    main()
