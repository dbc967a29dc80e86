"""Runs checks in worker processes: a crash or a hang costs one check, which is named.

A worker reports in order, so one that ends without a report ended in the check that it began last. The next worker
continues after that check.
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

START_SECONDS = 300.0  # to import torch, the backend and the operator database
GRACE_SECONDS = 5.0
TOLD_LINES = 30
_SILENT = object()


@dataclass(frozen=True)
class Outcome:
    """How one check ended: passed, failed, crashed, hung or not offered; the reason, and further details."""

    name: str
    outcome: str
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0


class DoesNotStart(Exception):
    """A worker ended before its first check: the backend cannot be imported, or the kit cannot find its checks."""


@dataclass(frozen=True)
class Workers:
    """Starts workers, one after the other, each for the checks that have not run yet."""

    options: Sequence[str]
    timeout: float
    environment: Mapping[str, str]

    def run(self, files: Sequence[Path], names: Sequence[str]) -> Generator[Outcome, None, None]:
        """Yields the outcome of each check of these files, as soon as it is known. Throws: `DoesNotStart`."""
        waiting = list(names)
        is_doubtful = False
        while waiting:
            before = len(waiting)
            with tempfile.TemporaryFile("w+", errors="replace") as output, _Worker(self, files, output) as worker:
                for outcome in worker.outcomes(waiting, is_doubtful):
                    waiting.remove(outcome.name)
                    yield outcome
            # That worker came no further than its first check.
            is_doubtful = len(waiting) == before - 1


class _Worker:
    """One process. Its output goes to a file, whose end is reported if it dies."""

    def __init__(self, workers: Workers, files: Sequence[Path], output: IO[str]) -> None:
        self.timeout, self.output = workers.timeout, output
        self.pipe, theirs = Pipe()
        command = [sys.executable, "-c", "from accelerator_conformance.worker import main; main()"]
        self.process = subprocess.Popen(
            [*command, str(theirs.fileno()), *workers.options, *map(str, files)],
            # A worker has the import path of this process.
            env={**workers.environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # so that its child processes can be killed with it
        )
        theirs.close()
        self.ending = os.pidfd_open(self.process.pid)

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.pipe.close()
        self._kill(signal.SIGKILL)
        os.close(self.ending)

    def outcomes(self, names: Sequence[str], is_doubtful: bool) -> Iterator[Outcome]:
        """Sends the names, and whether the device may be unusable; yields outcomes until the worker has ended."""
        ready = self._receive(START_SECONDS)
        if ready is _SILENT:
            self._kill(signal.SIGABRT)  # faulthandler writes the stack of each thread
            late = f"a worker was not ready after {START_SECONDS:g} s; it was {self._place()}"
            raise DoesNotStart(f"{late}:\n{self._told()}")
        if ready != "ready":
            raise DoesNotStart(f"a worker ended before its first check; it said:\n{self._told()}")
        self.pipe.send((list(names), is_doubtful))
        has_begun = False
        while isinstance(began := self._receive(self.timeout), str):
            has_begun = True
            ended = self._receive(self.timeout)
            if not isinstance(ended, Outcome):
                yield self._cut_short(began, "end", ended)
                return
            yield ended
        # A worker in doubt first asks whether the device is usable. If it comes no further, the next worker does not
        # ask. One that has not asked must give an outcome, or the next would repeat this, without end.
        if not has_begun and not is_doubtful:
            yield self._cut_short(names[0], "start", began)

    def _cut_short(self, name: str, missing: str, received: object) -> Outcome:
        """The outcome of a check whose worker was silent or ended where its start or its end was expected."""
        if received is _SILENT:
            self._kill(signal.SIGABRT)  # faulthandler writes the stack of each thread
            reason = f"no {missing} within {self.timeout:g} s; it was {self._place()}"
            return Outcome(name, "hung", reason, self._told(), self.timeout)
        return Outcome(name, "crashed", f"{self._ending()} {self._place()}", self._told())

    def _receive(self, seconds: float) -> object:
        """Returns the next message, None if the worker has ended, or `_SILENT` after a timeout."""
        if not wait([self.pipe, self.ending], seconds):
            return _SILENT
        try:
            # Messages sent before the end are still in the pipe.
            return self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, ConnectionResetError):
            return None

    def _kill(self, number: signal.Signals) -> None:
        """Kills the worker and its child processes."""
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
        """The innermost Python frame that faulthandler wrote, without those of other threads."""
        self.output.seek(0)
        written = self.output.read()
        thread = written[written.rfind("most recent call first") :]
        innermost = re.search(r'File ".*?([^/]*)", line (\d+) in (.*)', thread)
        return f"in {innermost[3]} ({innermost[1]}:{innermost[2]})" if innermost else "in no known place"


def connect(descriptor: str) -> Connection:
    """The worker's end of the pipe, which its child processes do not inherit."""
    os.set_inheritable(int(descriptor), False)
    return Connection(int(descriptor))
