"""What a forked child can do to the group of its parent: nothing."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from examples.distributed_ranks import on_ranks


# LITERALINCLUDE START: distributed-forked
def forked() -> str:
    """The child uses the group and destroys it. Afterwards, the parent uses it."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            dist.all_reduce(torch.ones(2, device="openreg"))
        except RuntimeError as error:
            os.write(writer, str(error).splitlines()[0].encode())
        dist.destroy_process_group()
        os._exit(0)
    os.waitpid(child, 0)
    tensor = torch.ones(2, device="openreg")
    dist.all_reduce(tensor)
    return f"child: {os.read(reader, 1000).decode()}\nparent: {tensor.tolist()}"


# LITERALINCLUDE END: distributed-forked

if __name__ == "__main__":
    for outcome in on_ranks(forked):
        print(outcome)
