"""One process per page: a crash, hang or early exit of one page is reported, and affects no other page."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from weaver.run import fork_server
from weaver.run.run_example import warning_options

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from weaver.configuration import Run

# At its timeout, the process ends itself with a traceback; the margin, in seconds, is for one that cannot.
MARGIN = 5.0

# The weaver, which need not be installed, and the root come last on the path, so that an installed package takes
# precedence over the folder of the same name.
_WEAVER = Path(__file__).resolve().parents[2]
_SERVER = """
import sys
sys.path += sys.argv[1:3]
from weaver.run import fork_server, runner
fork_server.main(int(sys.argv[3]), sys.argv[4], runner.main, outside=2)
"""
_PAGE = """
import sys
sys.path += sys.argv[1:3]
from weaver.run import runner
runner.main(None, sys.argv[3:])
"""


@dataclass(frozen=True)
class Failure:
    """An example that failed, at its line of the page."""

    line: int
    text: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of a page: the number of examples that ran, the failures, and its stderr.

    ``processor_seconds`` are those of a page that was forked and ended in time, including its awaited children.
    """

    ran: int
    failures: list[Failure]
    stderr: str
    processor_seconds: float | None = None


class Pages:
    """Runs pages, each in a process of its own that starts in the folder ``root``.

    ``environment`` is added to that of this process. Thread: several threads may run pages concurrently. Each has a
    fork server until ``close``; all are forked from a first one, which has imported the modules of ``settings``.
    """

    def __init__(
        self,
        settings: Run,
        root: Path,
        *,
        python: Path = Path(sys.executable),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._root = root
        self._path = [str(_WEAVER), str(root)]
        self._python = python
        self._warnings = warning_options(settings.warnings)
        self._environment = {**os.environ, **(environment or {})}
        self._first: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._lock = threading.Lock()  # guards _first and _servers
        self._of_thread = threading.local()
        self._servers: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the first server now, so that it imports while the caller does other work before the first page."""
        with self._lock:
            self._first = self._first or self._start_first()

    def close(self) -> None:
        """End the servers. Each ends when its connection is closed, at the latest when this process ends."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        self._of_thread = threading.local()
        if self._first:
            process, connection = self._first
            connection.close()
            process.terminate()
            process.wait()
            self._first = None

    def run(
        self,
        page: str,
        blocks: list[dict[str, Any]],
        seconds: float,
        *,
        environment: Mapping[str, str] | None = None,
        measure: Path | None = None,
        stop: bool = False,
    ) -> Outcome:
        """Run the blocks of a page, as ``asdict`` gives them.

        ``environment`` is added for this page. ``measure`` is the folder for the lines that each example executes (see
        ``weaver.proof``): then no process is forked, and each is measured from its start. ``stop`` ends the page at its
        first failure.
        """
        with tempfile.TemporaryDirectory() as folder:
            job, journal = Path(folder, "job.json"), Path(folder, "journal")
            filters, folder_of_measure = self._settings.warnings, measure and str(measure)
            task = {"page": page, "blocks": blocks, "measure": folder_of_measure, "stop": stop, "warnings": filters}
            job.write_text(json.dumps(task), encoding="utf-8")
            journal.touch()
            command = [str(job), str(journal), str(seconds)]
            full = {**self._environment, **(environment or {})}
            with Path(folder, "stdout").open("w+b") as stdout, Path(folder, "stderr").open("w+b") as stderr:
                start = self._fork if measure is None else self._start
                status, used = start(command, full, stdout, stderr, seconds + MARGIN)
                texts = [_read(stdout), _read(stderr)]
            events = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
        return replace(_outcome(events, status, seconds, *texts), processor_seconds=used)

    def _start(
        self, command: list[str], environment: dict[str, str], stdout: BinaryIO, stderr: BinaryIO, seconds: float
    ) -> tuple[int | None, None]:
        """Start an interpreter. Returns its exit status, or None when the process had to be killed."""
        process = subprocess.Popen(
            [str(self._python), *self._warnings, "-P", "-c", _PAGE, *self._path, *command],
            cwd=self._root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            return process.wait(seconds), None
        except subprocess.TimeoutExpired:
            return None, None
        finally:
            _end_group(process.pid)
            process.wait()

    def _fork(
        self, command: list[str], environment: dict[str, str], stdout: BinaryIO, stderr: BinaryIO, seconds: float
    ) -> tuple[int | None, float | None]:
        """Fork a process from the thread's server. Returns the same, and the processor seconds."""
        if not hasattr(self._of_thread, "server"):
            self._of_thread.server = self._new_server()
        server = self._of_thread.server
        fork_server.ask(server, command, str(self._root), environment, [stdout.fileno(), stderr.fileno()])
        (leader,) = fork_server.answer(server)
        server.settimeout(seconds)
        try:
            status, used = fork_server.answer(server)
            return status, used
        except TimeoutError:
            _end_group(leader)
            server.settimeout(None)
            fork_server.answer(server)
            return None, None
        finally:
            server.settimeout(None)
            _end_group(leader)

    def _new_server(self) -> socket.socket:
        with self._lock:
            self._first = self._first or self._start_first()
            ours, theirs = fork_server.connect()
            with theirs:
                fork_server.hand_over(self._first[1], theirs)
            self._servers.append(ours)
        return ours

    def _start_first(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = fork_server.connect()
        with theirs:
            start = [*self._path, str(theirs.fileno()), json.dumps(asdict(self._settings))]
            process = subprocess.Popen(
                [str(self._python), *self._warnings, "-P", "-c", _SERVER, *start],
                cwd=self._root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        return process, ours


def _outcome(events: list[dict[str, Any]], status: int | None, seconds: float, stdout: str, stderr: str) -> Outcome:
    failures = [
        Failure(event["line"], f"{event['source'].rstrip()}\n{event['text'].rstrip()}")
        for event in events
        if event["event"] == "failed"
    ]
    done = [event for event in events if event["event"] == "done"]
    at = max([event["line"] for event in events[-2:] if event["event"] == "at"], default=1)
    if status is None or not done or status:
        failures.append(Failure(at, _ending(status, bool(done), seconds, stderr)))
    if stdout:
        failures.append(
            Failure(at, f"something wrote to file descriptor 1 past Python, so nothing compares it:\n{stdout}")
        )
    return Outcome(done[0]["ran"] if done else 0, failures, stderr)


def _end_group(leader: int) -> None:
    """Kill the processes that an example started and did not wait for: they would outlive the page."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _ending(status: int | None, done: bool, seconds: float, stderr: str) -> str:
    if status is None or "Timeout (" in stderr:
        return f"the page was still running after {seconds:g} seconds, here, and was ended:\n{stderr}"
    if status < 0:
        when = "while it ended, after its last example" if done else "in this example"
        return f"the process was killed by {signal.Signals(-status).name} {when}:\n{stderr}"
    if not done:
        return f"the process ended with status {status} before the page had run to its end:\n{stderr}"
    return f"the process ended with status {status} after its last example:\n{stderr}"


def _read(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
