"""Two or more processes on one machine, as a process group: what `torchrun` does for real jobs."""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


# LITERALINCLUDE START: distributed-ranks
def on_ranks(
    function: Callable[..., Any], *arguments: Any, size: int = 2, backend: str = "staged", seconds: float = 20
) -> list[Any]:
    """Calls the function in `size` processes of one group, whose operations fail after `seconds`.

    Returns:
        For each rank what the function returned, or the first line of what it raised, or the exit code of a process
        that has ended.
    """
    # Forking is allowed because this process has not used the device. It saves the seconds of `import torch`.
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(size):
            here, there = context.Pipe()
            run = (there, Path(folder) / "store", rank, size, backend, seconds, function, arguments)
            process = context.Process(target=_run, args=run)
            process.start()
            there.close()
            ranks.append((process, here))
        outcomes = [_outcome(*rank) for rank in ranks]
        for process, here in ranks:
            with contextlib.suppress(OSError):  # of a rank that has ended
                here.send("end")
            process.join()
        return outcomes


def _run(
    connection: Connection,
    store: Path,
    rank: int,
    size: int,
    backend: str,
    seconds: float,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    torch.openreg.set_device(rank % torch.openreg.device_count())
    timeout = timedelta(seconds=seconds)
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=timeout)
    try:
        result = function(*arguments)
    except Exception as error:
        result = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    connection.send(result)
    connection.recv()  # until all ranks have answered: another may still be connecting to this one
    dist.destroy_process_group()
    connection.close()


def _outcome(process: multiprocessing.process.BaseProcess, connection: Connection) -> Any:
    try:
        result = connection.recv()
    except EOFError:
        process.join()
        return f"ended with exit code {process.exitcode}"
    return result


# LITERALINCLUDE END: distributed-ranks

if __name__ == "__main__":
    print("ranks:", on_ranks(dist.get_rank, size=3))
    print("world sizes:", on_ranks(dist.get_world_size, size=3))
