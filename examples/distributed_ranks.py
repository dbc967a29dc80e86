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
    function: Callable[..., Any],
    *arguments: Any,
    size: int = 2,
    backend: str = "staged",
    seconds: float = 20,
    with_device: bool = False,
) -> list[Any]:
    """Calls the function in `size` processes of one group, whose operations fail after `seconds`.

    `with_device` tells the group the device of each rank.

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
            run = (there, Path(folder) / "store", rank, size, backend, seconds, with_device, function, arguments)
            process = context.Process(target=_run, args=run)
            process.start()
            there.close()
            ranks.append((process, here))
        # In step: a rank may end in the function, but not while another still connects to it.
        for step in ("start", "end"):
            outcomes = [_outcome(*rank) for rank in ranks]
            for _, here in ranks:
                with contextlib.suppress(OSError):  # of a rank that has ended
                    here.send(step)
        for process, _ in ranks:
            process.join()
        return outcomes


def _run(
    connection: Connection,
    store: Path,
    rank: int,
    size: int,
    backend: str,
    seconds: float,
    with_device: bool,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    device = torch.device("openreg", rank % torch.openreg.device_count())
    torch.openreg.set_device(device)
    dist.init_process_group(
        backend,
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=seconds),
        device_id=device if with_device else None,
    )
    connection.send("has joined")
    connection.recv()
    try:
        result = function(*arguments)
    except Exception as error:
        result = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    connection.send(result)
    connection.recv()
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
