"""Another process that runs the functions below, with arguments and results that travel through a pipe."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing as mp

_held: list[Any] = []


def double(x: torch.Tensor) -> None:
    x.mul_(2)


def hold(*values: Any) -> None:
    _held.extend(values)


def drop() -> None:
    _held.clear()
    torch.accelerator.synchronize()


def held() -> list[list[float]]:
    return [x.tolist() for x in _held]


def values(*tensors: torch.Tensor) -> list[Any]:
    return [(str(x.device), x.dtype, tuple(x.shape), x.stride(), x.storage_offset(), x.tolist()) for x in tensors]


def share_storage(x: torch.Tensor, y: torch.Tensor) -> bool:
    return bool(x.untyped_storage()._cdata == y.untyped_storage()._cdata)


def kinds(*values: Any) -> list[Any]:
    return [(type(x).__name__, x.requires_grad, x.is_leaf, x.is_shared()) for x in values]


def make(*values: float, device: str) -> torch.Tensor:
    x = torch.tensor(values, device=device)
    _held.append(x)
    return x


def add_late(x: torch.Tensor, event: Any) -> None:
    _held.append(x)  # closing what another process sent waits for the device
    with torch.openreg.device(x.device):
        torch.openreg._sleep(200_000_000)
        x.add_(1)
        event.record()


def wait_and_read(x: torch.Tensor, event: Any) -> tuple[bool, list[float]]:
    event.wait()
    was_queued = not event.query()
    return was_queued, (x * 1).tolist()


def resend(x: torch.Tensor) -> torch.Tensor:
    return x


def resize(x: torch.Tensor) -> None:
    x.resize_(1000)


def nothing() -> None:
    """To learn that the process has done what it was sent before."""


def end_at_once() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def free_memory(device: str) -> int:
    torch.accelerator.synchronize(torch.device(device).index)
    return int(torch.openreg.mem_get_info(device)[0])


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def serve(connection: Connection) -> None:
    """Runs in the other process."""
    while True:
        try:
            name, arguments, options = connection.recv()
        except EOFError:
            return
        except Exception as error:
            connection.send((None, f"{type(error).__name__}: {error}"))
            continue
        if name == "end":
            return
        try:
            result, failure = globals()[name](*arguments, **options), None
        except Exception as error:
            result, failure = None, f"{type(error).__name__}: {error}"
        arguments = None
        try:
            connection.send((result, failure))
        except Exception as error:
            connection.send((None, f"{type(error).__name__}: {error}"))
        del result


class Peer:
    """Calls functions of this module in the other process: `peer("double", x)`."""

    def __init__(self, method: str = "spawn") -> None:
        context = mp.get_context(method)
        self.connection, there = context.Pipe()
        self.process = context.Process(target=serve, args=(there,))
        self.process.start()
        there.close()

    def __call__(self, name: str, *arguments: Any, **options: Any) -> Any:
        self.send(name, *arguments, **options)
        return self.answer()

    def send(self, name: str, *arguments: Any, **options: Any) -> None:
        self.connection.send((name, arguments, options))

    def answer(self) -> Any:
        assert self.connection.poll(60), "the other process does not answer"
        result, failure = self.connection.recv()
        if failure is not None:
            raise RuntimeError(f"the other process: {failure}")
        return result

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def end(self) -> None:
        was_alive = self.process.is_alive()
        if was_alive:
            self.send("end")
        self.process.join()
        self.connection.close()
        assert not was_alive or self.process.exitcode == 0, f"the other process ended with {self.process.exitcode}"


@contextmanager
def peer_process(method: str = "spawn") -> Iterator[Peer]:
    peer = Peer(method)
    try:
        yield peer
    finally:
        peer.end()
