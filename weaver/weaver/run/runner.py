"""Runs the executed blocks of one page, in a process of its own that does not depend on Sphinx.

Its parent (``isolation``, or a fork server for it) calls ``main``. The journal is a file of JSON lines; its last line
is ``done`` only when every block has run, so an example that ends the process cannot pass.
"""

from __future__ import annotations
import __future__

import contextlib
import ctypes
import doctest
import faulthandler
import importlib
import io
import json
import linecache
import os
import subprocess
import sys
import threading
import traceback
import types
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from weaver.run.run_example import RunExample

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from weaver.run.fork_server import Client

FLAGS = doctest.ELLIPSIS | doctest.DONT_ACCEPT_TRUE_FOR_1

Block = dict[str, Any]
Step = dict[str, Any]


class Runner:
    """Runs blocks in the order of the page, but all set-up blocks first and all clean-up blocks last."""

    def __init__(
        self,
        page: str,
        tell: Callable[..., None],
        run_example: RunExample,
        measure: str | None = None,
        *,
        stop: bool = False,
    ) -> None:
        self.page = page
        self.tell = tell
        self.run_example = run_example
        self.measured = _measured(measure)
        self.stop = stop
        self.spaces: dict[str, dict[str, Any]] = {}
        self.ran = 0
        self.uncaught: list[str] = []
        self.checker = doctest.OutputChecker()

    def run(self, blocks: list[Block]) -> None:
        """Run all blocks and write each failure to the journal."""
        # Only once: an example may install its own hook, and show what a thread raises.
        threading.excepthook = sys.unraisablehook = self._note
        rank = {"testsetup": 0, "testcleanup": 2}
        for block in sorted(blocks, key=lambda block: rank.get(block["kind"], 1)):
            for step in block["steps"]:
                self.tell("at", line=step["line"])
                with self.measured(step["line"]):
                    failure = self._shell(step) if block["kind"] == "console" else self._python(block, step)
                self.ran += 1
                failure = failure or "".join(self.uncaught)
                self.uncaught.clear()
                if failure:
                    self.tell("failed", line=step["line"], source=step["source"], text=failure)
                    if self.stop:
                        return

    def _note(self, raised: threading.ExceptHookArgs | sys.UnraisableHookArgs) -> None:
        """Note what nothing can catch. As text, because an exception keeps alive what its frames refer to."""
        if raised.exc_value is not None and not isinstance(raised.exc_value, SystemExit):  # which ends a thread
            self.uncaught.append(f"raised in a thread or a destructor:\n{_trace(raised.exc_value)}")

    def _space(self, group: str) -> dict[str, Any]:
        if group not in self.spaces:
            # The names of the default group live in `__main__`, so that what a page defines can be pickled.
            module = types.ModuleType("__main__" if group == "default" else f"group_{group}")
            sys.modules[module.__name__] = module
            module.__dict__["run_example"] = self.run_example
            self.spaces[group] = module.__dict__
        return self.spaces[group]

    def _python(self, block: Block, step: Step) -> str | None:
        space = self._space(block["group"])
        name = f"<{self.page}:{step['line']}>"
        features = [key for key in __future__.all_feature_names if space.get(key) is getattr(__future__, key)]
        future = sum(getattr(__future__, key).compiler_flag for key in features)
        mode = "single" if block["kind"] == "doctest" else "exec"
        _remember(name, step["source"])
        output = io.StringIO()
        raised: BaseException | None = None
        sys.displayhook = sys.__displayhook__
        with contextlib.redirect_stdout(output):
            try:
                exec(compile(step["source"], name, mode, future, dont_inherit=True), space)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # an example may raise anything, SystemExit included
                raised = error
        return self._judge(step, output.getvalue(), raised)

    def _judge(self, step: Step, got: str, raised: BaseException | None) -> str | None:
        if got and not got.endswith("\n"):
            got += "\n"
        flags = FLAGS
        for flag, on in step["flags"].items():
            flags = flags | int(flag) if on else flags & ~int(flag)
        want = step["want"]
        if raised is not None:
            message = _message(raised)
            if step["exact_message"] is None:
                return f"raised:\n{_trace(raised)}"
            if got:
                return f"printed before it raised, which nothing compares:\n{got}"
            want, got = step["exact_message"], message
        if self.checker.check_output(want, got, flags):
            return None
        example = doctest.Example(step["source"], want)
        return self.checker.output_difference(example, got, flags)

    def _shell(self, step: Step) -> str | None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        done = subprocess.run(
            ["bash", "-c", step["source"]],
            env={**os.environ, "PATH": path, "COLUMNS": "80"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != step["status"]:
            return f"exit status {done.returncode}, expected {step['status']}; output:\n{done.stdout}"
        return self._judge(step, done.stdout, None)


def _measured(folder: str | None) -> Callable[[int], AbstractContextManager[None]]:
    """Return the context manager of each example, given its line: none, or a probe of what it executes."""
    if folder is None:
        return lambda line: contextlib.nullcontext()
    # The .pth file of the sandbox has already imported it.
    probe: Any = importlib.import_module("weaver.proof.probe").Probe(Path(folder))
    return cast("Callable[[int], AbstractContextManager[None]]", probe.example)


def _remember(name: str, source: str) -> None:
    """Make an example visible to tracebacks and ``inspect.getsource``."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)


def _message(error: BaseException) -> str:
    lines = traceback.format_exception_only(type(error), error)
    if isinstance(error, SyntaxError):
        lines = lines[-1:]
    return "".join(lines)


def _trace(error: BaseException) -> str:
    """Return the traceback without the frames of this module."""
    frames = traceback.TracebackException.from_exception(error)
    while frames.stack and frames.stack[0].filename == __file__:
        del frames.stack[0]
    return "".join(frames.format())


def main(client: Client | None, command: list[str]) -> None:
    """Run the page described by a JSON file. The command: this file, the journal, and the time limit in seconds.

    ``client`` requests processes for the scripts that the page runs; without it, each is a new process.
    """
    job, journal, seconds = Path(command[0]), Path(command[1]), float(command[2])
    faulthandler.enable()
    faulthandler.dump_traceback_later(seconds, exit=True)
    task = json.loads(job.read_text(encoding="utf-8"))
    with journal.open("a", encoding="utf-8") as file:
        tell = partial(_tell, file)
        runner = Runner(task["page"], tell, RunExample(client, task["warnings"]), task["measure"], stop=task["stop"])
        runner.run(task["blocks"])
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)
        tell("done", ran=runner.ran)


def _tell(file: TextIO, event: str, **more: object) -> None:
    file.write(json.dumps({"event": event, **more}) + "\n")
    file.flush()
