"""``run_example``: runs a script of ``examples/`` from a page, in a fresh process, so that its output is compared.

Every executed block can call it by that name.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weaver.run.fork_server import Client

_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n(?:^ .*\n|^\s*\n)*", re.MULTILINE)


def warning_options(filters: Sequence[str]) -> list[str]:
    """Return filters as command-line options of Python."""
    return [word for one in filters for word in ("-W", one)]


class RunExample:
    """The function ``run_example``.

    ``client`` requests processes that are forked with their imports done; ``warnings`` are the filters of new ones.
    """

    def __init__(self, client: Client | None, warnings: Sequence[str]) -> None:
        self._client = client
        self._warnings = warning_options(warnings)

    def __call__(self, path: str, *arguments: str, env: Mapping[str, str] | None = None, status: int = 0) -> None:
        """Run the script ``path`` (relative to the root of the repository, where pages run) and print its output.

        ``arguments`` are passed to the script, ``env`` is added to its environment. Its stderr follows; of a traceback,
        only the message. Python warnings are errors. Throws: ``RuntimeError`` when a signal kills the script, or when
        it ends with another ``status``.
        """
        environment = {**os.environ, **(env or {})}
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            ended = self._run([path, *arguments], environment, stdout, stderr)
            for stream in (stdout, stderr):
                stream.seek(0)
            output = stdout.read().decode() + _TRACEBACK.sub("", stderr.read().decode())
            print(output, end="")
        if ended < 0:
            raise RuntimeError(f"{path} was killed by {signal.Signals(-ended).name}")
        if ended != status:
            raise RuntimeError(f"{path} ended with status {ended}, expected {status}; output:\n{output}")

    def _run(self, command: list[str], environment: dict[str, str], stdout: BinaryIO, stderr: BinaryIO) -> int:
        if self._client and self._client.can_run(command[0], environment):
            return self._client.run(command, environment, [stdout.fileno(), stderr.fileno()])
        return subprocess.run(
            [sys.executable, *self._warnings, *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            check=False,
        ).returncode
