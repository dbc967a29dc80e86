"""``make sanitize``: the tests of the backend on a build of all its libraries that checks every access to memory.

The address and undefined-behaviour sanitizers watch the backend's own code. PyTorch's libraries are not built for
them: what they allocate is watched, what they do is not. The thread sanitizer cannot look past that, so it has programs
of its own, without PyTorch (``make stress``).
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

# Those of the driver alone `make stress` runs under the same sanitizers.
TESTS = ("tests/aten", "tests/kernels", "tests/runtime", "tests/python", "tests/profiler")
OPTIONS = {
    "ASAN_OPTIONS": ":".join(
        [
            "detect_leaks=0",  # Python and PyTorch leave much to the end of the process; so do our own singletons
            "handle_segv=0",  # the driver's handler says which tensor the host touched, and tests compare what it says
            "handle_sigbus=0",
            "allow_user_segv_handler=1",
        ]
    ),
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def preloaded(compiler: str) -> str:
    """What a program without sanitizers has to load first: their runtime, and the library whose functions it wraps."""
    found = []
    for library in ("libasan.so", "libstdc++.so.6"):
        ran = subprocess.run([compiler, f"-print-file-name={library}"], capture_output=True, text=True, check=True)
        path = ran.stdout.strip()
        if not os.path.isabs(path):
            raise Fault(f"make sanitize: {compiler} has no {library}; install the sanitizers of your compiler")
        found.append(path)
    return " ".join(found)


def main(arguments: list[str]) -> None:
    """Builds and runs the tests, or those that are named. Throws: ``Fault``."""
    started = time.monotonic()
    sandbox = Sandbox(load(ROOT), ROOT / "build" / "sanitize")
    compiler = os.environ.get("CXX") or "c++"
    with sandbox.lock():
        sandbox.prepare()
        say("building with the address and undefined-behaviour sanitizers")
        # With more optimisation it would compile three times as long, and with less the tests would take long.
        # Under sanitizers GCC takes initialized memory for uninitialized, as its manual says.
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
        for path in paths or TESTS:  # each in a process of its own
            command = [str(sandbox.python), "-m", "pytest", "-p", "no:cacheprovider", *options, path]
            ran = subprocess.run(command, cwd=sandbox.tree, env=environment, stdin=subprocess.DEVNULL, check=False)
            if ran.returncode:
                raise Fault(f"make sanitize: a sanitizer or a test of {path} reported a fault; see above")
    print(f"make sanitize: no test made a sanitizer speak ({time.monotonic() - started:.0f} s)")
