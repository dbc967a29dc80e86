"""What each command of tools/dev.py does. Paths are relative to the repository root, the working directory."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import check as checks
import weaver
from environment import Fault, ensure_requirements, ensure_torch, say
from extension import ensure_extension
from prerequisites import installed_torch

SOURCE = Path("docs", "source")
OUTPUT = Path("docs", "build")
# What an editor or an import writes beside the sources; rebuilding for it would never end.
LIVE_IGNORE = r"__pycache__|~$|/\.[^/]*$|/4913$"


def _prepare(*extras: str) -> None:
    """Torch first, then the named extras, then the extension."""
    _prepare_sandbox(*extras)
    ensure_extension()


def _prepare_sandbox(*extras: str) -> None:
    """The same for commands that build the extension in a sandbox of their own, and leave the installed one alone."""
    ensure_torch()
    ensure_requirements("build", *extras)


def _run(command: list[str], environment: Mapping[str, str] | None = None) -> int:
    """Runs a program in the foreground, ``environment`` added to that of this process, and returns its status."""
    full = {**os.environ, **(environment or {})}
    return subprocess.run(command, stdin=subprocess.DEVNULL, env=full, check=False).returncode


def _sphinx(builder: str, output: Path, *options: str) -> int:
    return _run(
        [sys.executable, "-m", "sphinx", "--builder", builder, *checks.STRICT, *options, str(SOURCE), str(output)]
    )


def html(_arguments: list[str]) -> None:
    """Weaves the pages into docs/build/html, anew where the weaver itself has changed."""
    started = time.monotonic()
    _prepare("docs")
    output, environment = OUTPUT / "html", weaver.Environment(OUTPUT / "doctrees")
    if _sphinx("html", output, *environment.options) != 0:
        raise Fault("make html: the pages have faults, listed above")
    environment.is_current()
    pages = sum(1 for _ in output.rglob("*.html"))
    print(f"make html: {pages} pages in {time.monotonic() - started:.0f} s, start at {output / 'index.html'}")


def doctest(arguments: list[str]) -> None:
    """Executes every snippet of the pages, always from a clean start, and judges the proof that this leaves."""
    _prepare("docs", "test")
    shutil.rmtree(OUTPUT / "doctest", ignore_errors=True)
    if _run([sys.executable, "-m", "docs._ext.prove", "--output", str(OUTPUT / "doctest"), *arguments]) != 0:
        raise Fault("make doctest: not every snippet holds; the faults are above")


def proof(arguments: list[str]) -> None:
    """Measures which displayed lines the examples of the pages execute."""
    _prepare_sandbox("docs", "test")
    from proof import measure

    measure.main(arguments)


def mutate(arguments: list[str]) -> None:
    """Plants small faults in the displayed lines, and sees how many the examples of the pages notice."""
    _prepare_sandbox("docs", "test", "mutate")
    from proof import floor
    from proof import mutate as mutants

    mutants.main(arguments)
    floor.raise_floor()


def livehtml(arguments: list[str]) -> None:
    """Serves the pages and rebuilds extension and pages when a source changes."""
    _prepare("docs")
    rebuild = shlex.join([sys.executable, str(Path("tools", "dev.py")), "build"])
    command = [sys.executable, "-m", "sphinx_autobuild", str(SOURCE), str(OUTPUT / "livehtml"), "--nitpicky"]
    command += ["--doctree-dir", str(OUTPUT / "livedoctrees"), "--pre-build", rebuild, "--re-ignore", LIVE_IGNORE]
    for folder in ("csrc", "torch_openreg", "examples", "docs/_ext", "docs/proof"):
        command += ["--watch", folder]
    os.execv(sys.executable, [*command, *arguments])


def torch(_arguments: list[str]) -> None:
    """Installs PyTorch alone, so that its packages can come from an index that has nothing else."""
    ensure_torch()
    print(f"make torch: PyTorch {installed_torch()} is in {sys.prefix}")


def build(_arguments: list[str]) -> None:
    """Builds the extension and installs it into the environment."""
    started = time.monotonic()
    _prepare()
    print(f"make build: torch_openreg is up to date in {sys.prefix} ({time.monotonic() - started:.0f} s)")


def test(arguments: list[str]) -> None:
    """Runs the tests, several files at once; pytest's summary is the last line."""
    _prepare("test", "docs", "mutate")
    # A file stays in one process: what its tests do to the device, and what its fixtures build, is for all of them.
    parallel = ["--numprocesses", "auto", "--maxprocesses", "8", "--dist", "loadfile"]
    sys.exit(_run([sys.executable, "-m", "pytest", *parallel, *arguments]))


def opinfo(_arguments: list[str]) -> None:
    """Runs PyTorch's operator database on the device, and writes how much of it passes."""
    _prepare("test")
    import opinfo as database

    database.main()


def stubs(_arguments: list[str]) -> None:
    """Asks PyTorch which operators read which stubs, and writes the table."""
    _prepare("test")
    import stubs as reads

    reads.main()


def surface(_arguments: list[str]) -> None:
    """Writes what the backend stands on: PyTorch's interfaces in C++, and the schemas of the operators."""
    _prepare()
    import surface as written

    written.main()


def check(_arguments: list[str]) -> None:
    """Runs every static check, to the end even when one fails."""
    started = time.monotonic()
    _prepare("docs", "test", "check", "mutate")
    failed = checks.run_all()
    if failed:
        raise Fault(f"make check: {', '.join(failed)} failed; see above")
    print(f"make check: {len(checks.CHECKS)} checks passed ({time.monotonic() - started:.0f} s)")


def lock(_arguments: list[str]) -> None:
    """Writes the lock on what the pages show of PyTorch's own code."""
    _prepare("docs")
    if _run([sys.executable, "-m", "docs._ext.lock"]) != 0:
        raise Fault("make lock: the pages could not be read; see above")


def stress(_arguments: list[str]) -> None:
    """Runs the stress programs: driver and pool under the sanitizers, all of the backend through PyTorch."""
    if _run(["bash", str(Path("tools", "stress.sh"))]) != 0:
        raise Fault("make stress: a sanitizer or the program reported a fault; see above")
    _prepare("test")
    script = str(Path("tests", "stress", "tensors.py"))
    for mode, options in (("auto", []), ("async", []), ("auto", ["--faults"])):
        if _run([sys.executable, script, *options], {"OPENREG_LAUNCH": mode}) != 0:
            raise Fault("make stress: a value was wrong, or memory was left; see above")
    print("make stress: sanitizers clean, all values right, no byte left")


def sanitize(arguments: list[str]) -> None:
    """Runs the tests of the backend on a build with the address and undefined-behaviour sanitizers."""
    _prepare_sandbox("test")
    from proof import sanitized

    sanitized.main(arguments)


def _benchmark(script: Path, arguments: list[str]) -> None:
    """Runs one benchmark; it writes its figures to benchmarks/results."""
    say(f"{script}")
    if _run([sys.executable, str(script), *arguments]) != 0:
        raise Fault(f"{script} failed; see above")


def bench(arguments: list[str]) -> None:
    """Runs all benchmarks."""
    _prepare("test")
    for script in sorted(Path("benchmarks").glob("[!_]*.py")):
        _benchmark(script, arguments)
    print("make bench: the figures are in benchmarks/results")


def models(arguments: list[str]) -> None:
    """Trains the models on the CPU and on the device, and writes how they compare."""
    _prepare("test")
    _benchmark(Path("benchmarks", "models.py"), arguments)


def vendor(arguments: list[str]) -> None:
    """Writes a repository for a backend of another name, made of this one."""
    ensure_torch()  # it judges the name
    from vendor import cli

    cli.main(arguments)


def chapters(arguments: list[str]) -> None:
    """Tries what `make vendor` writes: all chapters together, and those alone that have changed."""
    ensure_torch()
    from vendor import proven

    proven.main(arguments)


_OF_THE_PAGES = (html, doctest, proof, mutate, livehtml, lock)
_OF_THE_BACKEND = (torch, build, test, opinfo, models, stubs, surface, check, stress, sanitize, bench, vendor, chapters)
COMMANDS: dict[str, Callable[[list[str]], None]] = {
    command.__name__: command for command in (*_OF_THE_PAGES, *_OF_THE_BACKEND)
}
