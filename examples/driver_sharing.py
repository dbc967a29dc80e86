"""A second process that calls the driver, and evaluates what this one asks for."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import io
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from examples.driver_memory import call, driver, error_code, new, read, sleep, write

__all__ = ["Peer", "call", "error_code", "event_handle", "memory_handle", "new", "read", "sleep", "without", "write"]
ROOT = Path(__file__).resolve().parents[1]


# LITERALINCLUDE START: sharing-peer
def memory_handle(pointer: int) -> bytes:
    """The handle of shareable memory."""
    handle = ctypes.create_string_buffer(64)
    call("orIpcGetMemoryHandle", handle, pointer)
    return handle.raw


def event_handle(event: int) -> bytes:
    """The handle of an event for several processes."""
    handle = ctypes.create_string_buffer(64)
    call("orIpcGetEventHandle", handle, event)
    return handle.raw


class Peer:
    """Another process, with a driver of its own. Numbers and bytes travel there and back."""

    def __init__(self, program: str) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        # Not a fork: the child of a process that uses the driver could not use it.
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / program)],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(self, expression: str, **values: Any) -> Any:
        """Evaluates an expression there, prints what it printed, and returns its value."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(repr((expression, values)).encode() + b"\n")
        self.process.stdin.flush()
        printed, value = ast.literal_eval(self.process.stdout.readline().decode())
        print(printed, end="")
        return value

    def kill(self) -> None:
        """Ends the process in the middle of its work."""
        self.process.kill()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)

    def close(self) -> None:
        """Ends the process, and forgets it."""
        self.process.kill()
        self.process.communicate()


# LITERALINCLUDE END: sharing-peer


# LITERALINCLUDE START: sharing-calls
def calls(peer: Peer) -> dict[str, tuple[Any, ...]]:
    """All functions for sharing, each with arguments that are accepted."""
    answer, handle = ctypes.byref(ctypes.c_void_p()), ctypes.create_string_buffer(64)
    theirs = peer("memory_handle(new('orMallocShareable', 64))")
    return {
        "orMallocShareable": (answer, 64),
        "orIpcGetMemoryHandle": (handle, new("orMallocShareable", 64)),
        "orIpcOpenMemoryHandle": (answer, theirs),
        "orIpcGetEventHandle": (handle, new("orEventCreateWithFlags", 3)),
        "orIpcOpenEventHandle": (answer, peer("event_handle(new('orEventCreateWithFlags', 3))")),
        "orIpcCloseMemory": (new("orIpcOpenMemoryHandle", theirs),),
    }


def print_nulls(functions: dict[str, tuple[Any, ...]]) -> None:
    """Makes each call with null or 0 in the place of one argument after the other."""
    for function, arguments in functions.items():
        for position in range(len(arguments)):
            error = error_code(function, *arguments[:position], None, *arguments[position + 1 :])
            detail = "" if error == 0 else driver.orGetErrorDetail().decode().partition(": ")[2]
            print(f"{function}, {position}: {driver.orGetErrorName(error).decode()} {detail}".strip())


# LITERALINCLUDE END: sharing-calls


def without(limit: str, function: str, *arguments: Any) -> None:
    """Makes a call that creates something, while a limit of the process is used up: NOFILE or AS (address space)."""
    kind: int = getattr(resource, f"RLIMIT_{limit}")
    soft, hard = resource.getrlimit(kind)
    result = ctypes.c_void_p()
    resource.setrlimit(kind, (1, hard))
    error = error_code(function, ctypes.byref(result), *arguments)
    resource.setrlimit(kind, (soft, hard))
    print(driver.orGetErrorName(error).decode())
    print("  ", re.sub(r"process \d+", "process PID", driver.orGetErrorDetail().decode()))


def main() -> None:
    """Answers one request per line."""
    for line in sys.stdin:
        expression, values = ast.literal_eval(line)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            value = eval(expression, globals(), values)
        print((printed.getvalue(), value), flush=True)


if __name__ == "__main__":
    main()
