"""Runs work in a child process that may crash or hang, and records how far it got.

The parent has imported torch and the backend, and never touches a device: forking a child takes a hundredth of a
second, and the driver starts in the child, in the given launch mode.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

MODES = ("auto", "async", "inline")
LIMIT = 60.0  # seconds without a message
_FAILED = "failed"

Say = Callable[..., None]


@dataclass
class Ending:
    """How a child ended, and its last messages."""

    cause: str | None
    """A signal, a status or silence; None if it came to its end."""
    messages: dict[str, Any] = field(default_factory=dict)
    """By subject, the last message."""
    stderr: str = ""


def in_child(
    work: Callable[[Say], None], mode: str, hear: Callable[[str, Any], None] = lambda *_: None, limit: float = LIMIT
) -> Ending:
    """Runs ``work``, which is given a function that sends a subject and a message, in a child with a launch mode.

    Requires: nothing here has touched a device. Throws: ``RuntimeError`` with what ``work`` raises.
    """
    if torch.openreg.is_initialized():
        raise RuntimeError("this process has started the driver, and its children could not use the device")
    read, write = os.pipe()
    errors = os.memfd_create("stderr")
    child = os.fork()
    if child == 0:
        _work(work, mode, write, errors)
    os.close(write)
    ending = Ending(None)
    try:
        is_silent = not _listen(read, ending, hear, limit)
        if is_silent:
            os.kill(child, signal.SIGKILL)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(read)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        ending.stderr = Path(f"/proc/self/fd/{errors}").read_text(encoding="utf-8", errors="replace")
        os.close(errors)
    if _FAILED in ending.messages:
        raise RuntimeError(f"the child's own code failed\n{ending.messages[_FAILED]}")
    if is_silent:
        ending.cause = f"hangs: nothing for {limit:.0f} s"
    elif status:
        ending.cause = f"dies of {signal.Signals(-status).name}" if status < 0 else f"ends with status {status}"
    return ending


def _work(work: Callable[[Say], None], mode: str, write: int, errors: int) -> None:
    os.environ["OPENREG_LAUNCH"] = mode
    os.dup2(errors, 2)
    status = 1

    def say(subject: str, message: Any) -> None:
        os.write(write, (json.dumps([subject, message]) + "\n").encode())

    try:
        work(say)
        status = 0
    except BaseException:
        say(_FAILED, traceback.format_exc())
    finally:
        # Without Python's shutdown: the child must not tear down what the parent has imported.
        os._exit(status)


def _listen(read: int, ending: Ending, hear: Callable[[str, Any], None], limit: float) -> bool:
    """Reads the child's messages until it ends; False if it is silent for too long."""
    rest = b""
    last = time.monotonic()
    while True:
        ready, _, _ = select.select([read], [], [], max(last + limit - time.monotonic(), 0))
        if not ready:
            return False
        data = os.read(read, 1 << 16)
        if not data:
            return True
        last = time.monotonic()
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            subject, message = json.loads(line)
            ending.messages[subject] = message
            hear(subject, message)
