"""The static checks of `make check`. Each yields its faults, with file and line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

import compile_alone
import defined_once
import layers
import maps
import results
import stubs
import surface
from environment import ROOT, Fault, say
from extension import build_folder
from share import ALL, Share
from vendor import conforms, state_trials

Check = Callable[[], Iterator[str]]

PAGES = Path("docs", "build", "check")
SECONDS = Path("build", "loop", "checks.tsv")
STRICT = ["--fail-on-warning", "--keep-going", "--nitpicky"]
PYTHON_SUFFIXES = {".py", ".pyi"}
CXX_SUFFIXES = {".cpp", ".h"}
# The user decides where packages come from. Written in halves, so that the check does not find this line.
REGISTRY_HOSTS = tuple(f"{host}.org" for host in ("pypi", "pythonhosted", "download.pytorch", "anaconda", "npmjs"))


def source_files(suffixes: set[str] | None = None) -> list[Path]:
    """The files that git tracks or would add, with one of the suffixes."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=True
        ).stdout
    except FileNotFoundError:
        raise Fault("git is needed to list the sources, found none on PATH; install git") from None
    except subprocess.CalledProcessError as error:
        raise Fault(f"git cannot list the sources: {error.stderr.strip()}") from None
    paths = (Path(name) for name in sorted(set(filter(None, listed.split("\0")))))
    return [path for path in paths if path.is_file() and (suffixes is None or path.suffix in suffixes)]


def _faults(command: list[str]) -> Iterator[str]:
    """Runs a program; if its status is not 0, its output is the fault."""
    ran = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if ran.returncode != 0:
        yield ran.stdout.strip() or f"{command[0]} ended with status {ran.returncode}"


def _tool(*command: str) -> Iterator[str]:
    """Runs a Python tool of this environment on the source tree."""
    return _faults([sys.executable, "-m", *command])


def python_lint() -> Iterator[str]:
    """Runs ruff's rules."""
    return _tool("ruff", "check", "--quiet", ".")


def python_format() -> Iterator[str]:
    """Checks the format of every Python file with ruff."""
    return _tool("ruff", "format", "--check", "--quiet", ".")


def python_types() -> Iterator[str]:
    """Runs mypy --strict on every Python file."""
    return _tool("mypy", *map(str, source_files(PYTHON_SUFFIXES)))


def cxx_format() -> Iterator[str]:
    """Checks the format of every C++ file with clang-format."""
    ours = Path(sys.executable).with_name("clang-format")
    clang_format = str(ours) if ours.is_file() else "clang-format"  # of the parent environment
    return _faults([clang_format, "--dry-run", "-Werror", *map(str, source_files(CXX_SUFFIXES))])


def cxx_alone(part: Share = ALL) -> Iterator[str]:
    """Compiles every source and header of csrc alone, or a share of them."""
    sources = [path for path in source_files(CXX_SUFFIXES) if path.parts[0] == "csrc"]
    return compile_alone.faults(build_folder() / "compile_commands.json", sources, part)


def cxx_layers() -> Iterator[str]:
    """Looks for includes of a higher layer, and for headers that are too wide."""
    return layers.faults(path for path in source_files(CXX_SUFFIXES) if path.parts[0] == "csrc")


def cxx_defined_once() -> Iterator[str]:
    """Looks for functions that one source defines and a header defines differently: the linker would keep one."""
    yield from defined_once.faults(sorted(build_folder().rglob("*.o")))


def cxx_maps() -> Iterator[str]:
    """Looks for sources that no map names, names in a map without a file, and references to notes that do not exist."""
    paths = (path for path in source_files() if path.parts[0] == "csrc")
    files = {str(path): path.read_text(encoding="utf-8") for path in paths}
    yield from maps.faults(files)
    yield from maps.unwritten_notes(files)


def pages() -> Iterator[str]:
    """Reads every page, compares the proof with what the pages show and run now, and its figures with the floor.

    This checks markers, regions, the gate, the lock and every reference, and weaves or executes nothing. An unchanged
    page is not read again; its faults are remembered (weaver/weaver/pages/faults.py).
    """
    sphinx = [
        sys.executable,
        "-m",
        "sphinx",
        "--jobs",
        "auto",
        "--quiet",
        *STRICT,
        "--doctree-dir",
        str(PAGES / "doctrees"),
    ]
    found = list(_faults([*sphinx, "--builder", "dummy", "docs/source", str(PAGES)]))
    yield from found
    if not found:
        # Imported late: these modules need Sphinx, which `make check` has installed by now.
        from weaver.configuration import load
        from weaver.proof import floor
        from weaver.proof.planned import planned

        # The pages have just been read: the second builder reuses them.
        yield from _faults([*sphinx, "--builder", "plan", "docs/source", str(PAGES)])
        yield from floor.faults(load(ROOT), planned(PAGES))


def tests_collected() -> Iterator[str]:
    """Looks for test files that pytest does not collect, such as those in folders that it skips by name."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet"]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        yield ran.stdout + ran.stderr
        return
    collected = {Path(line.partition("::")[0]) for line in ran.stdout.splitlines() if "::" in line}
    tests = [path for path in source_files({".py"}) if path.parts[0] == "tests" and path.name.startswith("test_")]
    yield from (f"{path}: pytest does not collect this file" for path in tests if path not in collected)


def results_current() -> Iterator[str]:
    """Looks for results whose sources have changed since: opinfo, models, libraries, build times, instructions."""
    return (fault for result in results.ALL for fault in result.stale())


def stubs_current() -> Iterator[str]:
    """Looks for a change of PyTorch, or of the scripts in tools/stubs, since the table of stubs was made."""
    return stubs.stale()


def surface_current() -> Iterator[str]:
    """Compares the PyTorch that the backend was written against with the installed one: interfaces and schemas."""
    return surface.stale()


def chapters_current() -> Iterator[str]:
    """Compares what each chapter needs with what it needed when it was last tried alone."""
    return conforms.stale()


def states_current() -> Iterator[str]:
    """Compares what each state needs with what it needed when last tried, and each state with the previous one."""
    return state_trials.stale()


def no_registry_host() -> Iterator[str]:
    """Looks for the name of a package registry's host in any file."""
    pattern = re.compile("|".join(map(re.escape, REGISTRY_HOSTS)))
    for path in source_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # an image
            continue
        for number, line in enumerate(lines, 1):
            if match := pattern.search(line):
                yield f"{path}:{number}: names the registry host {match.group()}"


def checks(part: Share = ALL) -> dict[str, Check]:
    """All checks by name, with a share of the longest, which comes first so that the others run at the same time."""
    rest: tuple[Check, ...] = (
        python_types,
        pages,
        tests_collected,
        chapters_current,
        states_current,
        surface_current,
        cxx_format,
        no_registry_host,
        python_lint,
        python_format,
        cxx_layers,
        cxx_defined_once,
        cxx_maps,
        results_current,
        stubs_current,
    )
    return {"cxx_alone": partial(cxx_alone, part), **{check.__name__: check for check in rest}}


def _timed(check: Check) -> tuple[list[str], float]:
    started = time.monotonic()
    try:
        found = list(check())
    except Fault as fault:
        found = [str(fault)]
    except Exception as error:  # a defect of the check: the other checks still run, and print what they find
        found = [f"{type(error).__name__}: {error} ({_where(error)})"]
    return found, time.monotonic() - started


def _where(error: Exception) -> str:
    """The file and line of the last frame in this repository, or in a package if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame for frame in frames if frame.filename.startswith(f"{ROOT}/") and "/site-packages/" not in frame.filename
    ]
    last = (ours or frames)[-1]
    return f"{last.filename.removeprefix(f'{ROOT}/')}:{last.lineno}"


def run_all(named: Mapping[str, Check], seconds: Path = SECONDS) -> list[str]:
    """Runs every check, several at once, and prints what each finds. Returns the names of those that found something.

    The time of each check is printed, and written to a file for benchmarks/loop.py.
    """
    failed, took = [], []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {pool.submit(_timed, check): name for name, check in named.items()}
        for done in as_completed(running):
            name, (found, duration) = running[done], done.result()
            say(f"check {name.replace('_', ' ')} ({duration:.1f} s)")
            took.append(f"{duration:.1f}\t{name}\n")
            if found:
                failed.append(name)
                print(*found, sep="\n", file=sys.stderr, flush=True)
    seconds.parent.mkdir(parents=True, exist_ok=True)
    seconds.write_text("".join(took), encoding="utf-8")
    return failed
