"""What each command of tools/dev.py does. Paths are relative to the repository root, the working directory."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from environment import ROOT, Fault, say

# Not installed, like the kit: `make vendor` and `make next` need it in an environment where nothing is installed.
sys.path.append(str(ROOT / "weaver"))

import check as checks
from chromium import find_browser
from command import Command
from driver import about_device
from prerequisites import installed_torch
from share import ALL, Share, share

SOURCE = Path("docs", "source")
OUTPUT = Path("docs", "build")
LOOP = checks.SECONDS.parent
# Files that an editor or an import writes next to the sources; rebuilding for them would never end.
LIVE_IGNORE = r"__pycache__|~$|/\.[^/]*$|/4913$"
_STARTED = time.monotonic()


def _seconds() -> float:
    """How long this process has run, including what was installed and built for the command."""
    return time.monotonic() - _STARTED


def _run(
    command: list[str], environment: Mapping[str, str] | None = None, stdin: int | None = subprocess.DEVNULL
) -> int:
    """Runs a program in the foreground, with ``environment`` added to this process's, and returns its status.

    With None for ``stdin`` it reads what this process would.
    """
    full = {**os.environ, **(environment or {})}
    return subprocess.run(command, stdin=stdin, env=full, check=False).returncode


def _sphinx(builder: str, output: Path, *options: str) -> int:
    command = [sys.executable, "-m", "sphinx", "--jobs", "auto", "--builder", builder, *checks.STRICT, *options]
    return _run([*command, str(SOURCE), str(output)])


def html(_arguments: list[str]) -> None:
    """Weaves the pages into docs/build/html."""
    output = OUTPUT / "html"
    if _sphinx("html", output, "--doctree-dir", str(OUTPUT / "doctrees")) != 0:
        raise Fault("make html: the pages have faults, listed above")
    pages = sum(1 for _ in output.rglob("*.html"))
    print(f"make html: {pages} pages in {_seconds():.0f} s, start at {output / 'index.html'}")


def epub(_arguments: list[str]) -> None:
    """Weaves the pages into one EPUB."""
    output = OUTPUT / "epub"
    # Everything in the folder would be added to the file.
    shutil.rmtree(output, ignore_errors=True)
    # Not the doctrees of `make html`: it would neither rewrite nor check again the pages that this has read.
    if _sphinx("epub", output, "--doctree-dir", str(OUTPUT / "epub_doctrees")) != 0:
        raise Fault("make epub: the pages have faults, listed above")
    (file,) = output.glob("*.epub")
    print(f"make epub: {file}, {file.stat().st_size / 1e6:.1f} MB, in {_seconds():.0f} s")


def pdf(arguments: list[str]) -> None:
    """Weaves the pages, and has Chromium print them all into one PDF."""
    import pdf as book

    options = book.parse(arguments)
    find_browser("make pdf")
    html([])
    made = book.make(OUTPUT / "html", options.output)
    print(f"make pdf: {made}, in {_seconds():.0f} s")


def _weave(command: str, arguments: list[str]) -> None:
    """Runs a command of the weaver."""
    from weaver.__main__ import run
    from weaver.configuration import load
    from weaver.fault import Fault as Wrong

    try:
        run(load(ROOT), command, arguments)
    except Wrong as wrong:
        raise Fault(str(wrong)) from None


def doctest(arguments: list[str]) -> None:
    """Executes every snippet of the pages, or of the named ones, and judges the resulting proof.

    A run of all pages starts clean; named pages, and a share of all, have a separate folder, which keeps its state.
    OPENREG_PAGES is the share that CI executes: 0/2 is every second page.
    """
    part = _share_of_pages()
    if not arguments and part != ALL:
        say(f"share {part.number}/{part.of} of the pages (OPENREG_PAGES)")
        pages = sorted(str(page.relative_to(SOURCE).with_suffix("")) for page in SOURCE.rglob("*.md"))
        arguments = list(part.take(pages))
    output = OUTPUT / ("doctest_pages" if arguments else "doctest")
    if not arguments:
        shutil.rmtree(output, ignore_errors=True)
    _weave("doctest", ["--output", str(output), *arguments])


def _share_of_pages() -> Share:
    try:
        return share(os.environ.get("OPENREG_PAGES", "0/1"))
    except ValueError as error:
        raise Fault(f"make doctest: OPENREG_PAGES: {error}") from None


def proof(arguments: list[str]) -> None:
    """Measures which displayed lines the examples of the pages execute."""
    _weave("proof", arguments)


def mutate(arguments: list[str]) -> None:
    """Plants small faults in the displayed lines, and counts how many the examples of the pages notice."""
    _weave("mutate", arguments)


def livehtml(arguments: list[str]) -> None:
    """Serves the pages and rebuilds extension and pages when a source changes."""
    rebuild = shlex.join([sys.executable, str(Path("tools", "dev.py")), "build"])
    command = [sys.executable, "-m", "sphinx_autobuild", str(SOURCE), str(OUTPUT / "livehtml"), "--nitpicky"]
    command += ["--doctree-dir", str(OUTPUT / "livedoctrees"), "--pre-build", rebuild, "--re-ignore", LIVE_IGNORE]
    for path in ("csrc", "torch_openreg", "examples", "weaver", "docs/_ext", "docs/proof", "docs/inventories.toml"):
        command += ["--watch", path]
    os.execv(sys.executable, [*command, *arguments])


def torch(_arguments: list[str]) -> None:
    """Installs only PyTorch, so that its packages can come from an index that has nothing else."""
    print(f"make torch: PyTorch {installed_torch()} is in {sys.prefix}")


def build(_arguments: list[str]) -> None:
    """Builds the extension and installs it into the environment."""
    print(f"make build: torch_openreg is up to date in {sys.prefix} ({_seconds():.0f} s)")


def test(arguments: list[str]) -> None:
    """Runs the tests, several files in parallel; pytest's summary is the last line."""
    # A file stays in one process: its tests share the state of the device and what its fixtures build.
    parallel = ["--numprocesses", "auto", "--maxprocesses", "8", "--dist", "loadfile"]
    # xdist would begin with the files that have the most tests, and end with those that take the longest.
    parallel += ["--no-loadscope-reorder", "-p", "tests.order"]
    # If all tests run, the time of each is recorded for benchmarks/loop.py.
    record = [] if arguments else ["--junit-xml", str(LOOP / "tests.xml")]
    # A debugger reads from the terminal: ARGS="-n0 --pdb".
    sys.exit(_run([sys.executable, "-m", "pytest", *parallel, *record, *arguments], stdin=None))


def conformance(arguments: list[str]) -> None:
    """Asks of the device what PyTorch requires of any; the last lines give the score and where the report is."""
    options = ["--device", "openreg", "--about", about_device(), "--report", str(Path("build", "conformance"))]
    command = [sys.executable, "-m", "accelerator_conformance", *options, *arguments]
    sys.exit(_run(command, {"PYTHONPATH": "conformance"}))


def opinfo(_arguments: list[str]) -> None:
    """Runs PyTorch's operator database on the device, and records how much of it passes."""
    import opinfo as database

    database.main()


def stubs(_arguments: list[str]) -> None:
    """Observes which of PyTorch's operators read which stubs, and writes the table."""
    import stubs as reads

    reads.main()


def surface(_arguments: list[str]) -> None:
    """Records what the backend depends on: PyTorch's interfaces in C++, and the schemas of the operators."""
    import surface as written

    written.main()


def _check_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make check")
    parser.add_argument(
        "--share", type=share, default=ALL, metavar="N/M", help="of M shares of what is compiled alone, the Nth"
    )
    return parser.parse_args(arguments)


def check(arguments: list[str]) -> None:
    """Runs every static check, even if one fails."""
    part = _check_options(arguments).share
    named = checks.checks(part)
    failed = checks.run_all(named)
    if failed:
        raise Fault(f"make check: {', '.join(failed)} failed; see above")
    compiled = "" if part == ALL else f", cxx alone for share {part.number}/{part.of} of the sources"
    print(f"make check: {len(named)} checks passed{compiled} ({_seconds():.0f} s)")


def lock(_arguments: list[str]) -> None:
    """Writes the lock on what the pages show of PyTorch's own code."""
    _weave("lock", [])


def stress(_arguments: list[str]) -> None:
    """Runs the stress programs: driver and pool under the sanitizers, the whole backend through PyTorch."""
    if _run(["bash", str(Path("tools", "stress.sh"))]) != 0:
        raise Fault("make stress: a sanitizer or the program reported a fault; see above")
    script = str(Path("tests", "stress", "tensors.py"))
    for mode, options in (("auto", []), ("async", []), ("auto", ["--faults"])):
        if _run([sys.executable, script, *options], {"OPENREG_LAUNCH": mode}) != 0:
            raise Fault("make stress: a value was wrong, or memory was left; see above")
    print("make stress: sanitizers clean, all values right, no byte left")


def sanitize(arguments: list[str]) -> None:
    """Runs the tests of the backend on a build with the address and undefined-behavior sanitizers."""
    import sanitized

    sanitized.main(arguments)


def fuzz(arguments: list[str]) -> None:
    """Runs random programs on the CPU and on the device, and shows the shortest on which they differ."""
    import fuzz as programs

    programs.main(arguments)


def browser(arguments: list[str]) -> None:
    """Opens the pages in Chromium, and reports the faults that a reader would see."""
    import browser as pages

    pages.main(arguments)


def _benchmark(script: Path) -> None:
    """Runs one benchmark; it writes its figures to benchmarks/results."""
    say(f"{script}")
    if _run([sys.executable, str(script)]) != 0:
        raise Fault(f"{script} failed; see above")


def bench(_arguments: list[str]) -> None:
    """Runs all benchmarks but the one that takes an hour."""
    for script in sorted(Path("benchmarks").glob("[!_]*.py")):
        if script.stem != "long_run":
            _benchmark(script)
    print("make bench: the figures are in benchmarks/results; python benchmarks/long_run.py trains for an hour")


def models(_arguments: list[str]) -> None:
    """Trains the models on the CPU and on the device, and writes a table that compares them."""
    _benchmark(Path("benchmarks", "models.py"))


def libraries(_arguments: list[str]) -> None:
    """Runs programs of users' libraries on the device, and records what came of them."""
    import libraries as programs

    programs.main()


def instructions(arguments: list[str]) -> None:
    """Counts the instructions of small calls, and compares them with the accepted counts."""
    import instructions as counted

    counted.main(arguments)


def vendor(arguments: list[str]) -> None:
    """Writes a repository for a backend of another name, made of this one."""
    from vendor import cli

    cli.main(arguments)


def chapters(arguments: list[str]) -> None:
    """Tries what `make vendor` writes: all chapters together, and each changed chapter alone."""
    from vendor import conforms

    conforms.main(arguments)


def states(arguments: list[str]) -> None:
    """Tries the states of `make vendor STATE=n`: the build, the result of the kit, and what works by then."""
    from vendor import state_trials

    state_trials.main(arguments)


def cross(arguments: list[str]) -> None:
    """Compiles the backend for aarch64, and runs what runs without Python on an emulated processor."""
    import cross as aarch64

    aarch64.main(arguments)


def next_release(arguments: list[str]) -> None:
    """Tries the backend with another release of PyTorch, in a separate environment, and records the result."""
    import next_torch

    next_torch.main(arguments)


def _parse_of(module: str) -> Callable[[list[str]], object]:
    """``parse`` of a module that is imported only when its command is asked for."""
    return lambda arguments: importlib.import_module(module).parse(arguments)


def _parse_of_weaver(command: str) -> Callable[[list[str]], object]:
    """The same for a command of the weaver."""

    def parse(arguments: list[str]) -> object:
        from weaver.configuration import load
        from weaver.fault import Fault as Wrong

        from weaver import options

        try:
            return options.parse(load(ROOT), command, arguments)
        except Wrong as wrong:
            raise Fault(f"make {command}: {wrong}") from None

    return parse


def _parse_doctest(arguments: list[str]) -> object:
    _share_of_pages()
    return _parse_of_weaver("doctest")(arguments)


_PAGES = ("build", "docs", "cxx", "kit")
_EXAMPLES = (*_PAGES, "test", "libraries", "format")
_TESTS = ("build", "kit", "test")
COMMANDS: dict[str, Command] = {
    "html": Command(html, _PAGES, extension=True, pages=True, takes_arguments=False),
    "epub": Command(epub, ("build", "docs", "cxx"), extension=True, pages=True, takes_arguments=False),
    "pdf": Command(pdf, (*_PAGES, "pdf"), extension=True, pages=True, parse=_parse_of("pdf")),
    "doctest": Command(doctest, _EXAMPLES, extension=True, pages=True, parse=_parse_doctest),
    "proof": Command(proof, _EXAMPLES, pages=True, parse=_parse_of_weaver("proof")),
    "mutate": Command(mutate, _EXAMPLES, pages=True, parse=_parse_of_weaver("mutate")),
    "livehtml": Command(livehtml, (*_PAGES, "live"), extension=True, pages=True),
    "browser": Command(browser, ("browser",), parse=_parse_of("browser")),
    "lock": Command(lock, ("build", "docs", "cxx"), pages=True, takes_arguments=False),
    "torch": Command(torch, takes_arguments=False),
    "build": Command(build, ("build",), extension=True, takes_arguments=False),
    # The tests try each command with the extras that it names, so all of them must be installed.
    "test": Command(test, (*_PAGES, "live", "browser", "pdf", "test", "libraries", "format", "check"), extension=True),
    "conformance": Command(conformance, ("build", "kit"), extension=True),
    "opinfo": Command(opinfo, ("build", "kit"), extension=True, takes_arguments=False),
    "models": Command(models, _TESTS, extension=True, takes_arguments=False),
    "libraries": Command(libraries, (*_TESTS, "libraries"), extension=True, takes_arguments=False),  # it installs more
    "stubs": Command(stubs, ("build", "kit"), extension=True, takes_arguments=False),
    "surface": Command(surface, ("build",), extension=True, takes_arguments=False),
    "check": Command(
        check,
        (*_PAGES, "browser", "pdf", "test", "libraries", "format", "check"),
        extension=True,
        parse=_check_options,
    ),
    "stress": Command(stress, ("build",), extension=True, takes_arguments=False),
    "sanitize": Command(sanitize, _TESTS, own_build=True),
    "fuzz": Command(fuzz, ("build", "kit"), extension=True, parse=_parse_of("fuzz")),
    "bench": Command(bench, _TESTS, extension=True, takes_arguments=False),
    "instructions": Command(instructions, ("build",), extension=True, parse=_parse_of("instructions")),
    "vendor": Command(vendor, ("format",), parse=_parse_of("vendor.cli")),  # torch checks the name
    "chapters": Command(chapters, ("format",), parse=_parse_of("vendor.conforms")),
    "states": Command(states, ("format",), parse=_parse_of("vendor.state_trials")),
    "cross": Command(cross, ("build",), parse=_parse_of("cross")),
    "next": Command(next_release, ("cxx",), parse=_parse_of("next_torch")),
}
