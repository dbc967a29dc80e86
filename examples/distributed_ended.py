"""What becomes of an operation when its process ends."""

from __future__ import annotations

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks
from torch_openreg import _C


# LITERALINCLUDE START: distributed-ended
def ended() -> str:
    """Ends the backends, as the end of the process does. Rank 0 waits for an operation; rank 1 begins one later."""
    tensor = torch.ones(2, device="openreg")
    pending = [dist.all_reduce(tensor, async_op=True)] if dist.get_rank() == 0 else []
    _C._end_staged_backends()
    try:
        for work in pending or [dist.all_reduce(tensor, async_op=True)]:
            work.wait()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "no error"  # NOT PROVEN: both raise


# LITERALINCLUDE END: distributed-ended

if __name__ == "__main__":
    for outcome in on_ranks(ended, seconds=5):
        print(outcome)
