"""The host's end of the devices: starts a process, talks to it, and reports its death to all waiting threads."""

from __future__ import annotations

import atexit
import errno
import itertools
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from .device.channel import Channel
from .memory import COUNT, memories, settle

BLOCKING = os.environ.get("TORCH_REMOTE_BLOCKING") == "1"
_PROGRAM = "from torch_remote.device import process; process.main()"


class DeviceDied(RuntimeError):
    """The process of a device has ended, and with it all of its memory."""


# LITERALINCLUDE START: remote-process
class Process:
    """A running device: the process, the connection, and the waiting callers."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.died: DeviceDied | None = None
        self.waiting: dict[int, Future[Any]] = {}
        self.tickets = itertools.count()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel = Channel(ours)
        environment = {
            **os.environ,
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]),
            # Otherwise a kernel's threads spin for the next one on the processors that the host needs to send it.
            "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "passive"),
        }
        with theirs:
            self.process = subprocess.Popen(
                # -P: no file in the current folder is imported in place of a module.
                [
                    sys.executable,
                    "-P",
                    "-X",
                    "faulthandler",
                    "-W",
                    "ignore",
                    "-c",
                    _PROGRAM,
                    str(theirs.fileno()),
                    str(memories[index].lost),
                ],
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the host
            )
        self.reader = threading.Thread(target=self._read, name=f"remote:{index}", daemon=True)
        self.reader.start()

    def _read(self) -> None:
        """Delivers answers, on a thread of its own, which is never interrupted and so never loses one."""
        while True:
            try:
                (ticket, *answer), buffers = self.channel.receive()
            except (EOFError, ConnectionError):
                break
            except OSError as lost:  # it is unknown whose answer it was
                self._refuse(lost)
                continue
            if asker := self.waiting.pop(ticket, None):  # an interrupted caller no longer waits
                asker.set_result((*answer, buffers))
        self.died = DeviceDied(
            f"the process of device remote:{self.index} is gone (exit status {self.process.wait()}), and its memory "
            f"with it: torch.remote.reset({self.index}) lets the next use start another one"
        )
        self._refuse(self.died)
        self.channel.socket.close()

    def _refuse(self, error: Exception) -> None:
        """Raises an error in all waiting callers."""
        for ticket in list(self.waiting):
            if asker := self.waiting.pop(ticket, None):
                asker.set_exception(error)

    def send(self, message: tuple[Any, ...], buffers: Sequence[memoryview]) -> None:
        """Sends one command. Throws: ``DeviceDied``, and ``OSError`` if the host has no memory for it."""
        try:
            self.channel.send(message, buffers)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.EBADF):
                raise
            self.process.wait()
            raise self.died or DeviceDied(f"the process of device remote:{self.index} is gone") from None

    def close(self) -> None:
        """Ends the process. Requires: nothing uses it any more."""
        self.process.kill()
        self.process.wait()
        self.reader.join()


# LITERALINCLUDE END: remote-process


class Answer(NamedTuple):
    """What a device answered: the value, and its large contents."""

    value: Any
    buffers: list[memoryview]


# LITERALINCLUDE START: remote-host-device
class Device:
    """A device of the host: its process, started when it is first used."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.process: Process | None = None
        self.belongs_to_parent = False
        self.lock = threading.RLock()  # a signal handler may use the device while this thread starts it

    def started(self) -> Process:
        """The process. Throws: ``RuntimeError`` in a forked child."""
        if self.process is None:
            with self.lock:
                if self.belongs_to_parent:
                    raise RuntimeError(
                        f"remote:{self.index} was in use when this process was forked, and its connection belongs to "
                        "the parent: start processes by multiprocessing's 'spawn', or fork before the first use"
                    )
                if self.process is None:
                    made = Process(self.index)
                    if self.process is None:
                        self.process = made
                    else:  # a signal handler has started one meanwhile
                        made.close()  # NOT PROVEN: tests/test_life.py sends the signal
        return self.process

    def launch(self, *message: Any, buffers: Sequence[memoryview] = ()) -> None:
        """Sends a command without waiting."""
        self._send(self.started(), message, buffers)

    def _send(self, process: Process, message: tuple[Any, ...], buffers: Sequence[memoryview]) -> None:
        settle()
        untold = memories[self.index].untold
        if addresses := list(untold):
            process.send(("free", addresses), ())
            untold.difference_update(addresses)  # an interrupt before this frees them twice, which is harmless
        process.send(message, buffers)

    def ask(self, command: str, *arguments: Any, buffers: Sequence[memoryview] = ()) -> Answer:
        """Sends a command and waits for its answer. Throws: what the device raised, ``DeviceDied``."""
        process = self.started()
        ticket, answer = next(process.tickets), Future[Any]()
        process.waiting[ticket] = answer
        try:
            self._send(process, (command, ticket, *arguments), buffers)
            value, error, large = answer.result()
        finally:
            process.waiting.pop(ticket, None)
        if error is not None:
            raise _restored(error[0], error[1], self.index)
        return Answer(value, large)

    def launch_on(self, stream: int, command: str, *arguments: Any, buffers: Sequence[memoryview] = ()) -> None:
        """Launches work on a stream; with TORCH_REMOTE_BLOCKING=1 waits, so that an error is raised where it occurs."""
        self.launch(command, stream, *arguments, buffers=buffers)
        if BLOCKING:
            self.ask("synchronize_stream", stream)

    def reset(self) -> None:
        """Ends the process, with its memory. The next use starts another one."""
        with self.lock:
            process, self.process = self.process, None
            memories[self.index].lost = memories[self.index].next
        if process is not None:
            process.close()


# LITERALINCLUDE END: remote-host-device


def _restored(packed: bytes, text: str, index: int) -> BaseException:
    """The exception of a device, as far as it can be reconstructed."""
    kind, arguments = pickle.loads(packed)
    error: BaseException = kind(*arguments)
    error.add_note(f"On remote:{index}:\n{text}")
    return error


devices = [Device(index) for index in range(COUNT)]


# LITERALINCLUDE START: remote-fork
def _after_fork() -> None:
    """Closes the parent's connections in a forked child, where they would keep the devices alive after the parent."""
    for index, device in enumerate(devices):
        devices[index] = Device(index)
        if device.process is not None:
            device.process.channel.socket.close()
            device.process.process.returncode = 0  # not a child of this process, so nothing to wait for
            devices[index].belongs_to_parent = True


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _shut_down() -> None:
    for device in devices:
        device.reset()


# LITERALINCLUDE END: remote-fork
