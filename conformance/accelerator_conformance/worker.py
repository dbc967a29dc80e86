"""A worker process, which `isolation` starts with its end of the pipe, the options of the run and the files of checks.

It is pytest with another loop: it runs the checks that it is sent, in that order, and reports the outcome of each.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import os
import re
import signal
import sys
import time
from itertools import islice, takewhile
from multiprocessing.connection import Connection

import pytest
from _pytest.runner import runtestprotocol

from accelerator_conformance.checks import LEVELS, NOT_OFFERED
from accelerator_conformance.isolation import Outcome, connect
from accelerator_conformance.report import identity

PR_SET_PDEATHSIG = 1  # of Linux's sys/prctl.h
REASON_LINES = 4
# PyTorch's defaults for the functions of a guard and of hooks, such as those of streams and events.
NOT_OVERRIDDEN = re.compile(r"RuntimeError: (?:\w+ )?[Bb]ackend doesn't support ")


class Loop:
    """The plugin that replaces pytest's loop over the items."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs the checks that the other end of the pipe names, until the device is unusable."""
        self.pipe.send("ready")
        items = {identity(item): item for item in session.items}
        names, is_doubtful = self.pipe.recv()
        device = session.config.getoption("device")
        # Another worker cures no device that is unusable from the start.
        was_usable = not is_doubtful or is_usable(device)
        for name in names:
            self.pipe.send(name)
            outcome = run(name, items[name])
            self.pipe.send(outcome)
            if outcome.outcome == "failed" and was_usable and not is_usable(device):
                break  # the next check would fail too, through no fault of its own
        self.pipe.close()
        # How a process ends is a check of its own, and must not cost the last check of each file.
        os._exit(0)


def run(name: str, item: pytest.Item) -> Outcome:
    """Runs one check, with its setup and teardown."""
    started = time.monotonic()
    reports = runtestprotocol(item, nextitem=None, log=False)
    seconds = time.monotonic() - started
    for report in reports:
        if report.failed:
            forget_the_error()
            why, level = reason(report), item.get_closest_marker("level")
            if NOT_OVERRIDDEN.match(why) and level is not None and level.args[0] != LEVELS[0]:
                return Outcome(name, "not offered", why, "", seconds)
            return Outcome(name, "failed", why, report.longreprtext, seconds)
        if report.skipped:
            assert isinstance(report.longrepr, tuple)
            why = report.longrepr[2].removeprefix("Skipped: ").removeprefix(NOT_OFFERED)
            return Outcome(name, "not offered", why, "", seconds)
    return Outcome(name, "passed", seconds=seconds)


def reason(report: pytest.TestReport) -> str:
    """The first lines of the error, up to where pytest begins to explain an assertion."""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash else report.longreprtext
    first, *others = filter(None, map(str.strip, message.splitlines()))
    told = takewhile(lambda line: not line.startswith(("assert ", "+", "The sample:")), others)
    return " ".join([first, *islice(told, REASON_LINES - 1)])


def forget_the_error() -> None:
    """Frees the tensors that the traceback of a failed check holds.

    Freed later, they would change the memory statistics of whichever check runs then.
    """
    for name in ("last_exc", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    gc.collect()


def is_usable(device: str) -> bool:
    """Whether the next check finds the device as this one did.

    A failed kernel may have left a sticky error, and a failed check another device as the current one.
    """
    import torch

    try:
        return torch.accelerator.current_device_index() == 0 and (torch.ones(2, device=device) + 1).tolist() == [2, 2]
    except Exception:
        return False


def main() -> None:
    """Imports the backend under test, and then runs pytest."""
    # Otherwise a worker that hangs after its parent has died would hold the device forever.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    faulthandler.enable()
    pipe, options = connect(sys.argv[1]), sys.argv[2:]
    sys.path.insert(0, os.getcwd())
    import torch  # loads the backend

    for option in options:
        if option.startswith("--setup="):
            importlib.import_module(option.partition("=")[2])
    for option in options:
        if option.startswith("--device="):
            try:
                torch.device(option.partition("=")[2])
            except RuntimeError as error:
                sys.exit(f"PyTorch does not know the device: {error}")
    here = os.path.dirname(__file__)
    # Ignores the project in the current folder: its settings and its plugins.
    own = ["-c", os.devnull, f"--rootdir={here}", "--noconftest", "--capture=no", "--import-mode=importlib", "-qq"]
    without = [f"-pno:{name}" for name in ("faulthandler", "cacheprovider")]
    own += ["-p", "accelerator_conformance.session"]
    sys.exit(pytest.main([*own, *without, *options], plugins=[Loop(pipe)]))
