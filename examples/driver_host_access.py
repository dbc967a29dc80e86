"""Reads device memory as if it were host memory, in processes with another signal handler for that, or none.

Run it with OPENREG_DEVICE_COUNT=16: the device is the last but three.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import subprocess
import sys

from driver_memory import call, new  # type: ignore[import-not-found]  # beside this script

HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class SignalAction(ctypes.Structure):
    """struct sigaction of the C library."""

    _fields_ = [
        ("function", HANDLER),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


# LITERALINCLUDE START: driver-host-access-handlers
def report(number: int, information: int, context: int) -> None:
    """Acts as a crash reporter: receives the address, and ends the process in its own way."""
    address = ctypes.c_uint64.from_address(information + 16).value
    print(f"crash reporter: {signal.Signals(number).name} at {address:#x}", file=sys.stderr)
    os._exit(3)


REPORTER = SignalAction(HANDLER(report), flags=4)  # SA_SIGINFO: it takes more than the signal number


def access(handler: str) -> None:
    """Starts the driver before or after a handler is installed, and reads a byte of device memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if handler == "crash reporter, earlier":
        ctypes.CDLL(None).sigaction(signal.SIGSEGV, ctypes.byref(REPORTER), None)
    if handler == "faulthandler, earlier":
        faulthandler.enable()
    call("orSetDevice", 12)
    if handler == "faulthandler, later":
        faulthandler.enable()
    address = 8 if handler == "none, another address" else new("orMalloc", 4096) + 0x2A8
    print(f"{address:#x}", flush=True)
    ctypes.string_at(address, 1)


# LITERALINCLUDE END: driver-host-access-handlers


def main() -> None:
    """Runs each case in a process of its own, and prints how it ends. The address differs in each process."""
    if sys.argv[1:]:
        access(sys.argv[1])
    for handler in (
        "none",
        "none, another address",
        "faulthandler, earlier",
        "faulthandler, later",
        "crash reporter, earlier",
    ):
        ran = subprocess.run([sys.executable, __file__, handler], capture_output=True, text=True, check=False)
        end = signal.Signals(-ran.returncode).name if ran.returncode < 0 else f"exit status {ran.returncode}"
        print(f"{handler}: {end}")
        for line in ran.stderr.replace(ran.stdout.strip(), "ADDRESS").splitlines():
            if line.startswith(("openreg", "Fatal", "crash")):
                print(f"   {line}")


if __name__ == "__main__":
    main()
