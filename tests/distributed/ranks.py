"""Starts the ranks of a process group, and calls functions on all of them.

The ranks are forked from a server that has imported torch and, for DDP, its compiler: this takes seconds. Nobody waits
forever: a rank that does not answer in time fails the test.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

PATIENCE = 60.0
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "torch._dynamo", "tests.distributed.ranks"])


class RankFailed(Exception):
    """What a function raised on one rank: the type, the message and the stack."""

    def __init__(self, rank: int, kind: str, message: str, stack: str) -> None:
        super().__init__(f"rank {rank}: {kind}: {message}\n{stack}")
        self.rank, self.kind, self.message = rank, kind, message


def _serve(
    connection: Connection,
    rank: int,
    size: int,
    store: str,
    seconds: float,
    environment: dict[str, str],
    with_device: bool,
) -> None:
    faulthandler.dump_traceback_later(4 * PATIENCE, exit=True)
    os.environ.update(environment)
    torch.set_num_threads(1)
    device = torch.device("openreg", rank % torch.openreg.device_count())
    torch.openreg.set_device(device)
    dist.init_process_group(
        "cpu:gloo,openreg:staged",
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=seconds),
        device_id=device if with_device else None,
    )
    connection.send((True, None))
    while (request := connection.recv()) is not None:
        function, arguments = request
        try:
            connection.send((True, function(*arguments)))
        except Exception as error:
            connection.send((False, (rank, type(error).__name__, str(error), traceback.format_exc())))
    if dist.is_initialized():
        dist.destroy_process_group()


class Ranks:
    """Processes of one group, which live until the end of the test or module that uses them.

    Each rank has joined the group before the first call: one that dies earlier fails the others' set-up, not what they
    are called for.
    """

    def __init__(self, size: int, seconds: float = 30.0, with_device: bool = False, **environment: str) -> None:
        self.size = size
        self._folder = tempfile.mkdtemp()
        self.processes, self._connections = [], []
        for rank in range(size):
            here, there = CONTEXT.Pipe()
            store = str(Path(self._folder) / "store")
            process = CONTEXT.Process(
                target=_serve,
                args=(there, rank, size, store, seconds, environment, with_device),
                daemon=True,
                name=f"rank {rank}",
            )
            process.start()
            there.close()
            self.processes.append(process)
            self._connections.append(here)
        try:
            self._results(self.outcomes())
        except BaseException:
            self.close()
            raise

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Calls the function on every rank, and does not wait."""
        for connection in self._connections:
            connection.send((function, arguments))

    def outcomes(self, ranks: list[int] | None = None) -> list[Any]:
        """For each rank what its function returned, or the RankFailed that it raised."""
        ranks = list(range(self.size)) if ranks is None else ranks
        return [self._outcome(rank) for rank in ranks]

    def _outcome(self, rank: int) -> Any:
        process = self.processes[rank]
        if not wait([self._connections[rank], process.sentinel], PATIENCE):
            raise TimeoutError(f"rank {rank} has not answered within {PATIENCE} s")
        try:
            fine, value = self._connections[rank].recv()
        except (EOFError, ConnectionResetError):  # the latter if it left a request unread
            process.join()
            return RankFailed(rank, "ended", f"exit code {process.exitcode}", "")
        return value if fine else RankFailed(*value)

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Calls the function on every rank and returns their results.

        Raises:
            RankFailed: what the first rank that failed has raised.
        """
        self.start(function, *arguments)
        return self._results(self.outcomes())

    @staticmethod
    def _results(outcomes: list[Any]) -> list[Any]:
        for outcome in outcomes:
            if isinstance(outcome, RankFailed):
                raise outcome
        return outcomes

    def close(self) -> list[str]:
        """Ends the ranks; those that do not end in time are killed. Returns which of them did not end in order.

        A rank that has killed itself is none of these: some tests are about it.
        """
        faults = []
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.send(None)
        for process in self.processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()
                faults.append(f"{process.name} did not end within 10 s")
            elif process.exitcode not in (0, -signal.SIGKILL):
                faults.append(f"{process.name} ended with exit code {process.exitcode}")
        shutil.rmtree(self._folder)
        return faults


@contextlib.contextmanager
def ranks(size: int, seconds: float = 30.0, with_device: bool = False, **environment: str) -> Iterator[Ranks]:
    """A process group for one block. `with_device`: it knows the device of its rank.

    Raises:
        AssertionError: a rank did not end in order, after a block that has not raised.
    """
    group = Ranks(size, seconds, with_device, **environment)
    try:
        yield group
    except BaseException:
        group.close()
        raise
    assert not (faults := group.close()), faults
