"""``make sanitize``: runs the tests on a build of all the backend's libraries that checks every memory access.

The address and undefined-behavior sanitizers check the backend's own code. PyTorch's libraries are not instrumented:
their allocations are checked, their accesses are not. The thread sanitizer does not work with such libraries, so it has
separate programs without PyTorch (``make stress``).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from driver import chosen
from environment import ROOT, Fault, say
from prerequisites import compiler_command
from weaver.configuration import load
from weaver.fault import Fault as Wrong
from weaver.proof.sandbox import Sandbox

# Without the tests of the driver: `make stress` runs it under the same sanitizers.
TESTS = ("tests/aten", "tests/kernels", "tests/runtime", "tests/python", "tests/profiler")
# Options of pytest after which an argument that is also the name of a file is their value, not a test to run.
_WITH_VALUE = frozenset(
    (
        *("-c", "-k", "-m", "-o", "-p", "-W", "--basetemp", "--config-file", "--confcutdir", "--deselect"),
        *("--doctest-glob", "--ignore", "--ignore-glob", "--junit-xml", "--junitxml", "--log-file", "--override-ini"),
        *("--pythonwarnings", "--rootdir"),
    )
)
# pytest's exit status if it has run no test.
_NONE_SELECTED = 5
OPTIONS = {
    "ASAN_OPTIONS": ":".join(
        [
            "detect_leaks=0",  # Python and PyTorch free much only when the process ends; so do our own singletons
            "handle_segv=0",  # the driver's handler says which tensor the host touched, and tests compare its message
            "handle_sigbus=0",
            "allow_user_segv_handler=1",
        ]
    ),
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def preloaded(compiler: Sequence[str]) -> str:
    """The libraries to preload into a program without sanitizers: their runtime, and the library that it wraps."""
    found = []
    for library in ("libasan.so", "libstdc++.so.6"):
        ran = subprocess.run([*compiler, f"-print-file-name={library}"], capture_output=True, text=True, check=True)
        path = ran.stdout.strip()
        if not os.path.isabs(path):
            named = shlex.join(compiler)
            raise Fault(f"make sanitize: {named} has no {library}; install the sanitizers of your compiler")
        found.append(path)
    return " ".join(found)


def split(arguments: Sequence[str], tree: Path) -> tuple[list[str], list[str]]:
    """The options of pytest with their values, and the files or folders to run, each in the given order."""
    options: list[str] = []
    paths: list[str] = []
    before = ""
    for argument in arguments:
        named = argument.partition("::")[0]
        is_path = before not in _WITH_VALUE and not argument.startswith("-") and (tree / named).exists()
        (paths if is_path else options).append(argument)
        before = argument
    return options, paths


def run_tests(python: Path, tree: Path, environment: Mapping[str, str], arguments: Sequence[str]) -> None:
    """Runs the named files and folders, or all of ``TESTS``, with the options. Throws: ``Fault``.

    Options may select no test of some folders, but must select one of at least one.
    """
    options, named = split(arguments, tree)
    paths = named or list(TESTS)
    empty = []
    for path in paths:  # each in a separate process
        command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", *options, path]
        status = subprocess.run(command, cwd=tree, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
        if status == _NONE_SELECTED:
            empty.append(path)
        elif status:
            raise Fault(f"make sanitize: a sanitizer or a test of {path} reported a fault; see above")
    if empty and (not options or empty == paths):
        selected = f" that {shlex.join(options)} selects" if options else ""
        raise Fault(
            f"make sanitize: found no test in {', '.join(empty)}{selected}; name other files, folders or options"
        )


def main(arguments: list[str]) -> None:
    """Builds the libraries, and runs all tests or the named ones. Throws: ``Fault``."""
    started = time.monotonic()
    sandbox = Sandbox(load(ROOT), ROOT / "build" / "sanitize")
    compiler = compiler_command()
    libraries = preloaded(compiler)  # first, since a compiler without them would be found out after the whole build
    with sandbox.lock():
        sandbox.prepare()
        say("building with the address and undefined-behavior sanitizers")
        # More optimization would take three times as long to compile, and less would make the tests slow. With
        # sanitizers, GCC reports initialized memory as uninitialized, as its manual says.
        flags = "-O1 -g1 -Wno-maybe-uninitialized"
        definitions = ["-DCMAKE_BUILD_TYPE=", f"-DCMAKE_CXX_FLAGS={flags}", "-DOPENREG_SANITIZE=address"]
        definitions += [f"-D{name}={value}" for name, value in chosen().definitions.items()]
        try:
            sandbox.build(*definitions, compiler=shlex.join(compiler))
        except Wrong as wrong:
            raise Fault(str(wrong)) from None
        say(f"built ({time.monotonic() - started:.0f} s)")
        environment = {**os.environ, **OPTIONS, "LD_PRELOAD": libraries}
        run_tests(sandbox.python, sandbox.tree, environment, arguments)
    print(f"make sanitize: no test made a sanitizer speak ({time.monotonic() - started:.0f} s)")
