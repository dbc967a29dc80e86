"""Programs in processes of their own, for states that cannot be undone: a fork, a crash, an environment.

They are forked from a process that has nearly finished `import torch` (tools/torch_preload.py). Each of some hundred
programs would otherwise spend over a second on that import, and most of them need no more than that for the rest.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

# What torch does not read while it is imported.
_READ_LATE = (
    "OPENREG_",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "PYTORCH_ALLOC_CONF",
    "TORCHINDUCTOR_",
    "PYTEST_CURRENT_TEST",
)
# A warning that a test does not expect is an error, except the one about the first fallback.
_WARNINGS = ("-W", "error", "-W", "ignore:openreg runs")
_TOOLS = Path(__file__).resolve().parents[1] / "tools"
_BYTES = 1 << 17


class Processes:
    """Runs programs as `python -c` would. Thread: one at a time."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._environment = _read_early(os.environ)
        command = [sys.executable, *_WARNINGS, str(Path(__file__)), str(theirs.fileno())]
        with theirs:
            self._server = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])

    def close(self) -> None:
        """Ends the process that the others are forked from."""
        self._connection.close()
        self._server.wait()

    def run(
        self, code: str, more: Mapping[str, str] | None = None, seconds: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs code in the folder and the environment of this process, with more variables.

        Throws: ``subprocess.TimeoutExpired`` if that takes more seconds; then the program is killed.
        """
        environment = {**os.environ, **(more or {})}
        if _read_early(more or {}):
            return _run_anew(code, environment, seconds)
        if self._environment != _read_early(os.environ):  # a test, or a library that it uses, has set a variable
            self.close()
            self._start()
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            request = json.dumps([os.getcwd(), code, environment]).encode()
            socket.send_fds(self._connection, [request], [output.fileno(), errors.fileno()])
            process = self._answer()
            if not select.select([self._connection], [], [], seconds)[0]:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                self._answer()
                raise subprocess.TimeoutExpired(code, seconds, _text(output), _text(errors))
            status = self._answer()
            return subprocess.CompletedProcess(code, status, _text(output).decode(), _text(errors).decode())

    def _answer(self) -> int:
        if answer := self._connection.recv(_BYTES):
            return int(answer)
        raise RuntimeError("the process that programs are forked from has ended; what it said stands above")


def _read_early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_READ_LATE)}


def _run_anew(code: str, environment: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Runs code in a process that imports everything itself."""
    return subprocess.run(
        [sys.executable, *_WARNINGS, "-c", code],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def _text(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _serve(connection: socket.socket) -> str:
    """Forks a process for each request. Returns in each of them, with the code to run."""
    while True:
        request, streams, _, _ = socket.recv_fds(connection, _BYTES, 2)
        if not request:
            os._exit(0)
        process = os.fork()
        if process == 0:
            connection.close()
            folder, code, environment = json.loads(request)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            for number, stream in enumerate(streams, 1):
                os.dup2(stream, number)
                os.close(stream)
            return str(code)
        for stream in streams:
            os.close(stream)
        connection.send(str(process).encode())
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())


if __name__ == "__main__":
    sys.path[0] = str(_TOOLS)
    from torch_preload import preload

    preload(["torch"])
    # The collector ignores frozen objects, also when a fork ends: traversing them takes half a second.
    gc.collect()
    gc.freeze()
    program = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.path[0] = ""
    sys.argv[:] = ["-c"]
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(program, "<string>", "exec", dont_inherit=True), main.__dict__)
