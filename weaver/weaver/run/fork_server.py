"""The fork server: pages, and the scripts that they run, start with their imports already done.

Otherwise these imports, a second in each process, can take half of the time of the pages. The serving process has
imported the modules of ``[run]``, and is single-threaded.

    first            imports, and forks a server for each connection that it receives
    └ server         forks a leader for each page, one after another
      └ leader       starts a session; forks the page, and a process for each script that the page runs
        ├ page       runs the examples, and requests scripts
        └ script ... as ``python script`` would

A request is a folder, a command and an environment, sent with the file descriptors for stdout and stderr.

Pages and scripts exit like every program: Python is finalized, then the destructors of the libraries run.
`multiprocessing` also has a fork server with preloaded modules, but its processes end by `os._exit`, so none of this
would run. Nor could they set up the folder, environment, streams and session of a request before anything else runs.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import types
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Page = Callable[["Client | None", list[str]], None]

_BYTES = 1 << 17


def connect() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a connection."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def hand_over(connection: socket.socket, other: socket.socket) -> None:
    """Ask the first process to fork a server for another connection."""
    with _while_it_serves():
        socket.send_fds(connection, [b"+"], [other.fileno()])


def ask(
    connection: socket.socket, command: Sequence[str], folder: str, environment: Mapping[str, str], streams: list[int]
) -> None:
    """Request a process that writes to these two file descriptors."""
    request = json.dumps([folder, list(command), dict(environment)]).encode()
    with _while_it_serves():
        socket.send_fds(connection, [request], streams)


def answer(connection: socket.socket) -> list[Any]:
    """Wait for numbers: a process ID, or an exit status as in ``Popen.returncode`` and the processor seconds."""
    with _while_it_serves():
        if numbers := connection.recv(_BYTES):
            return cast("list[Any]", json.loads(numbers))
        raise BrokenPipeError


@contextmanager
def _while_it_serves() -> Iterator[None]:
    try:
        yield
    except ConnectionError as error:
        raise RuntimeError("the fork server has ended; what it said stands above") from error


class Client:
    """The page's end of the connection."""

    def __init__(self, connection: socket.socket, settings: Mapping[str, Any]) -> None:
        self._connection = connection
        self._environment = dict(os.environ)
        # These are read after the fork. Others may be read earlier: a script that changes them gets a new process.
        self._read_late = tuple(settings["read_late"])
        self._imports = [f"import {name}" for name in settings["preload"]]

    def can_run(self, path: str, environment: Mapping[str, str]) -> bool:
        """Return whether a forked process can run a script as a new one would, and saves an import."""
        changed = {name for name, _ in environment.items() ^ self._environment.items()}
        if not all(name.startswith(self._read_late) for name in changed) or not os.path.isfile(path):
            return False
        with open(path, encoding="utf-8") as script:
            text = script.read()
        return any(statement in text for statement in self._imports)

    def run(self, command: Sequence[str], environment: Mapping[str, str], streams: list[int]) -> int:
        """Run a script with its arguments. Returns its exit status."""
        ask(self._connection, command, os.getcwd(), environment, streams)
        status: int = answer(self._connection)[0]
        return status


def main(descriptor: int, settings: str, page: Page, *, outside: int) -> None:
    """Serve every connection received over the given one: run ``page`` with each requested command.

    ``settings`` are those of ``[run]`` as JSON; ``outside`` is the number of folders at the end of the path that a
    script must not see. Returns in every forked process.
    """
    server = _Server(json.loads(settings), page, outside)
    server.preload()
    # The collector ignores frozen objects, also when a fork exits: traversing them takes half a second.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=descriptor) as first:
        while handed_over := socket.recv_fds(first, 1, 1)[1]:
            with socket.socket(fileno=handed_over[0]) as connection:
                if os.fork() == 0:
                    first.close()
                    server.serve(connection)
                    return


class _Server:
    """The state that the first process shares with all its forks."""

    def __init__(self, settings: Mapping[str, Any], page: Page, outside: int) -> None:
        self._settings = settings
        self._page = page
        self._outside = outside

    def preload(self) -> None:
        """Import the modules that must be loaded before the fork."""
        names = self._settings["preload"]
        if self._settings["starter"]:
            importlib.import_module(self._settings["starter"]).preload(names)
        else:
            for name in names:
                importlib.import_module(name)

    def serve(self, connection: socket.socket) -> None:
        """Fork a leader for each page that is requested over a connection."""
        while received := _receive(connection):
            command, streams, enter = received
            leader = os.fork()
            if leader == 0:
                os.setsid()
                connection.close()
                enter()
                self._lead(command)
                return
            _close(streams)
            connection.send(json.dumps([leader]).encode())
            connection.send(json.dumps(_ending(leader)).encode())

    def _lead(self, command: list[str]) -> None:
        ours, theirs = connect()
        child = os.fork()
        if child == 0:
            ours.close()
            with theirs:
                self._page(Client(theirs, self._settings), command)
            return
        theirs.close()
        # Children of the page may outlive it and keep the connection open, so an open connection proves nothing.
        ended = os.pidfd_open(child)
        while _first(ours.fileno(), ended) != ended:
            received = _receive(ours)
            if received is None:
                break
            script, streams, enter = received
            process = os.fork()
            if process == 0:
                ours.close()
                os.close(ended)
                enter()
                self._run(script)
                return
            _close(streams)
            done = os.pidfd_open(process)
            if _first(done, ended) == ended:
                break  # ending the page ends the session
            _close([done])
            ours.send(json.dumps(_ending(process)).encode())
        _end(_ending(child)[0])

    def _run(self, command: list[str]) -> None:
        """Run a script in this process, as if Python had been started with it."""
        file = os.path.abspath(command[0])
        main = types.ModuleType("__main__")
        main.__dict__.update(__file__=file, __builtins__=sys.modules["builtins"])
        sys.modules["__main__"] = main
        sys.argv[:] = command
        sys.path[:] = [os.path.dirname(os.path.realpath(file)), *sys.path[: -self._outside]]
        exec(compile(Path(file).read_bytes(), file, "exec", dont_inherit=True), main.__dict__)


def _first(*descriptors: int) -> int:
    """Wait until one is ready, and return the last that is."""
    return select.select(descriptors, [], [])[0][-1]


def _receive(connection: socket.socket) -> tuple[list[str], list[int], Callable[[], None]] | None:
    """Return a command, the file descriptors, and a function that turns a fork into the requested process."""
    request, streams, _, _ = socket.recv_fds(connection, _BYTES, 2)
    if not request:
        return None
    folder, command, environment = json.loads(request)

    def enter() -> None:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        for number, stream in enumerate([os.open(os.devnull, os.O_RDONLY), *streams]):
            os.dup2(stream, number)
            os.close(stream)

    return command, streams, enter


def _close(streams: list[int]) -> None:
    for stream in streams:
        os.close(stream)


def _ending(process: int) -> tuple[int, float]:
    """Wait for a process to end. Returns its status and its processor seconds, including its awaited children."""
    _, status, used = os.wait4(process, 0)
    return os.waitstatus_to_exitcode(status), round(used.ru_utime + used.ru_stime, 2)


def _end(status: int) -> None:
    """End this process like another one: with its exit status, or by its signal."""
    if status < 0:
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
