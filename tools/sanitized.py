"""``make sanitize``: runs the tests on a build of all the backend's libraries that checks every memory access.

The address and undefined-behavior sanitizers check the backend's own code. PyTorch's libraries are not instrumented:
their allocations are checked, their accesses are not. The thread sanitizer does not work with such libraries, so it has
separate programs without PyTorch (``make stress``).
"""

from __future__ import annotations

import os
import subprocess
import time

from driver import chosen
from environment import ROOT, Fault, say
from weaver.configuration import load
from weaver.fault import Fault as Wrong
from weaver.proof.sandbox import Sandbox

# Without the tests of the driver: `make stress` runs it under the same sanitizers.
TESTS = ("tests/aten", "tests/kernels", "tests/runtime", "tests/python", "tests/profiler")
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


def preloaded(compiler: str) -> str:
    """The libraries to preload into a program without sanitizers: their runtime, and the library that it wraps."""
    found = []
    for library in ("libasan.so", "libstdc++.so.6"):
        ran = subprocess.run([compiler, f"-print-file-name={library}"], capture_output=True, text=True, check=True)
        path = ran.stdout.strip()
        if not os.path.isabs(path):
            raise Fault(f"make sanitize: {compiler} has no {library}; install the sanitizers of your compiler")
        found.append(path)
    return " ".join(found)


def main(arguments: list[str]) -> None:
    """Builds the libraries, and runs all tests or the named ones. Throws: ``Fault``."""
    started = time.monotonic()
    sandbox = Sandbox(load(ROOT), ROOT / "build" / "sanitize")
    compiler = os.environ.get("CXX") or "c++"
    with sandbox.lock():
        sandbox.prepare()
        say("building with the address and undefined-behavior sanitizers")
        # More optimization would take three times as long to compile, and less would make the tests slow. With
        # sanitizers, GCC reports initialized memory as uninitialized, as its manual says.
        flags = "-O1 -g1 -Wno-maybe-uninitialized"
        definitions = ["-DCMAKE_BUILD_TYPE=", f"-DCMAKE_CXX_FLAGS={flags}", "-DOPENREG_SANITIZE=address"]
        definitions += [f"-D{name}={value}" for name, value in chosen().definitions.items()]
        try:
            sandbox.build(*definitions, compiler=compiler)
        except Wrong as wrong:
            raise Fault(str(wrong)) from None
        say(f"built ({time.monotonic() - started:.0f} s)")
        environment = {**os.environ, **OPTIONS, "LD_PRELOAD": preloaded(compiler)}
        paths = [argument for argument in arguments if not argument.startswith("-")]
        options = [argument for argument in arguments if argument.startswith("-")]
        for path in paths or TESTS:  # each in a separate process
            command = [str(sandbox.python), "-m", "pytest", "-p", "no:cacheprovider", *options, path]
            ran = subprocess.run(command, cwd=sandbox.tree, env=environment, stdin=subprocess.DEVNULL, check=False)
            if ran.returncode:
                raise Fault(f"make sanitize: a sanitizer or a test of {path} reported a fault; see above")
    print(f"make sanitize: no test made a sanitizer speak ({time.monotonic() - started:.0f} s)")
