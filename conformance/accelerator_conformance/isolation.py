"""Runs checks in worker processes, which may crash or hang: that costs one check, which is named.

A worker answers in order, so who ends without an answer ended in the check that it began last. The next worker goes on
behind it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import IO

START_SECONDS = 300.0  # to import torch, the backend and the database of operators
GRACE_SECONDS = 5.0
TOLD_LINES = 30
_SILENT = object()


@dataclass(frozen=True)
class Outcome:
    """How one check ended: passed, failed, crashed, hung or not offered; why, and what is known beyond that."""

    name: str
    outcome: str
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0


class DoesNotStart(Exception):
    """A worker ended before its first check: the backend cannot be imported, or the kit not find its checks."""


@dataclass(frozen=True)
class Workers:
    """How workers are started: one after the other, each for the checks that are still to be run."""

    options: Sequence[str]
    timeout: float
    environment: Mapping[str, str]

    def run(self, files: Sequence[Path], names: Sequence[str]) -> Generator[Outcome, None, None]:
        """Yields how each check of these files ended, as soon as it has. Throws: `DoesNotStart`."""
        waiting = list(names)
        while waiting:
            with tempfile.TemporaryFile("w+", errors="replace") as output, _Worker(self, files, output) as worker:
                for outcome in worker.outcomes(waiting):
                    waiting.remove(outcome.name)
                    yield outcome


class _Worker:
    """One process. Its output goes to a file, of which the end is told when it dies."""

    def __init__(self, workers: Workers, files: Sequence[Path], output: IO[str]) -> None:
        self.timeout, self.output = workers.timeout, output
        self.pipe, theirs = Pipe()
        command = [sys.executable, "-c", "from accelerator_conformance.worker import main; main()"]
        self.process = subprocess.Popen(
            [*command, str(theirs.fileno()), *workers.options, *map(str, files)],
            # A worker imports from where this process does.
            env={**workers.environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # so that what it has started can be ended with it
        )
        theirs.close()
        self.ending = os.pidfd_open(self.process.pid)

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.pipe.close()
        self._kill(signal.SIGKILL)
        os.close(self.ending)

    def outcomes(self, names: Sequence[str]) -> Iterator[Outcome]:
        """Hands the names over, and yields until the worker has ended."""
        if self._receive(START_SECONDS) != "ready":
            raise DoesNotStart(self._told())
        self.pipe.send(list(names))
        while isinstance(began := self._receive(self.timeout), str):
            ended = self._receive(self.timeout)
            if isinstance(ended, Outcome):
                yield ended
            elif ended is _SILENT:
                self._kill(signal.SIGABRT)  # faulthandler writes where each thread was
                reason = f"no end within {self.timeout:g} s; it was {self._place()}"
                yield Outcome(began, "hung", reason, self._told(), self.timeout)
                return
            else:
                yield Outcome(began, "crashed", f"{self._ending()} {self._place()}", self._told())
                return

    def _receive(self, seconds: float) -> object:
        """The next message; None when the worker has ended, `_SILENT` when it says nothing for too long."""
        if not wait([self.pipe, self.ending], seconds):
            return _SILENT
        try:
            # What was sent before the end is still there.
            return self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, ConnectionResetError):
            return None

    def _kill(self, number: signal.Signals) -> None:
        """Ends the worker and all that it has started."""
        for kill in (number, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, kill)
                self.process.wait(GRACE_SECONDS)
            except ProcessLookupError:
                self.process.wait()
            except subprocess.TimeoutExpired:
                continue

    def _ending(self) -> str:
        status = self.process.wait()
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def _told(self) -> str:
        self.output.seek(0)
        return "\n".join(self.output.read().splitlines()[-TOLD_LINES:])

    def _place(self) -> str:
        """The innermost place in Python of which faulthandler wrote, without the other threads."""
        self.output.seek(0)
        written = self.output.read()
        thread = written[written.rfind("most recent call first") :]
        innermost = re.search(r'File ".*?([^/]*)", line (\d+) in (.*)', thread)
        return f"in {innermost[3]} ({innermost[1]}:{innermost[2]})" if innermost else "in no known place"


def connect(descriptor: str) -> Connection:
    """The worker's end of the pipe, which what it starts does not get."""
    os.set_inheritable(int(descriptor), False)
    return Connection(int(descriptor))
