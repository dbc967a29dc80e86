"""The static checks of `make check`. Each prints what is wrong, with file and line, and answers whether all is well."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import compile_alone
import layers
import results
import stubs
import surface
from environment import Fault, say
from extension import build_folder
from vendor import proven

STRICT = ["--fail-on-warning", "--keep-going", "--nitpicky"]
PYTHON_SUFFIXES = {".py", ".pyi"}
CXX_SUFFIXES = {".cpp", ".h"}
# Whoever builds this chooses where packages come from. Written in halves, so as not to find themselves.
REGISTRY_HOSTS = tuple(f"{host}.org" for host in ("pypi", "pythonhosted", "download.pytorch", "anaconda", "npmjs"))


def source_files(suffixes: set[str] | None = None) -> list[Path]:
    """The files that git knows or would take, of the named kinds."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise Fault("git is needed to list the sources, found none on PATH; install git") from None
    except subprocess.CalledProcessError as error:
        raise Fault(f"git cannot list the sources: {error.stderr.strip()}") from None
    paths = (Path(name) for name in sorted(set(filter(None, listed.split("\0")))))
    return [path for path in paths if path.is_file() and (suffixes is None or path.suffix in suffixes)]


def _tool(*command: str) -> bool:
    """Runs a Python tool of this environment on the source tree."""
    return subprocess.run([sys.executable, "-m", *command], stdin=subprocess.DEVNULL, check=False).returncode == 0


def python_lint() -> bool:
    """Runs ruff's rules."""
    return _tool("ruff", "check", "--quiet", ".")


def python_format() -> bool:
    """Asks ruff whether it would lay any Python file out otherwise."""
    return _tool("ruff", "format", "--check", "--quiet", ".")


def python_types() -> bool:
    """Runs mypy --strict on every Python file."""
    return _tool("mypy", *map(str, source_files(PYTHON_SUFFIXES)))


def cxx_format() -> bool:
    """Asks clang-format whether it would lay any C++ file out otherwise."""
    clang_format = str(Path(sys.executable).parent / "clang-format")
    command = [clang_format, "--dry-run", "-Werror", *map(str, source_files(CXX_SUFFIXES))]
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 0


def cxx_alone() -> bool:
    """Compiles every source and header of csrc by itself."""
    sources = [path for path in source_files(CXX_SUFFIXES) if path.parts[0] == "csrc"]
    return _report(compile_alone.faults(build_folder() / "compile_commands.json", sources))


def cxx_layers() -> bool:
    """Looks for includes that point up, and for headers that are too wide."""
    return _report(layers.faults(path for path in source_files(CXX_SUFFIXES) if path.parts[0] == "csrc"))


def pages() -> bool:
    """Reads every page: markers, regions, the gate and the lock, without weaving or executing anything."""
    output = Path("docs", "build", "check")
    return _tool("sphinx", "--quiet", "--builder", "dummy", *STRICT, "--fresh-env", "docs/source", str(output))


def tests_collected() -> bool:
    """Looks for test files that pytest passes by, as it does with folders of certain names."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet"]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return _report(iter([ran.stdout + ran.stderr]))
    collected = {Path(line.partition("::")[0]) for line in ran.stdout.splitlines() if "::" in line}
    tests = [path for path in source_files({".py"}) if path.parts[0] == "tests" and path.name.startswith("test_")]
    return _report(f"{path}: pytest does not collect this file" for path in tests if path not in collected)


def proof_current() -> bool:
    """Compares the proof with what the pages show and run now, and its figures with the floor."""
    # Not before: these modules need Sphinx, which `make check` has installed by now.
    from proof import floor

    return _report(floor.faults())


def results_current() -> bool:
    """Compares what the operator database, the models and the build times were made from with what is there now."""
    return _report(fault for result in results.ALL for fault in result.stale())


def stubs_current() -> bool:
    """Compares what the stubs were read with, and the PyTorch that read them, with what is there now."""
    return _report(stubs.stale())


def surface_current() -> bool:
    """Compares what the backend was written against with the installed PyTorch: interfaces and schemas."""
    return _report(surface.stale())


def chapters_current() -> bool:
    """Compares what each chapter needs with what it needed when it was tried alone."""
    return _report(proven.stale())


def no_registry_host() -> bool:
    """Looks for the name of a package registry's host in any file."""
    return _report(_registry_hosts())


def _registry_hosts() -> Iterator[str]:
    pattern = re.compile("|".join(map(re.escape, REGISTRY_HOSTS)))
    for path in source_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # a picture
            continue
        for number, line in enumerate(lines, 1):
            if match := pattern.search(line):
                yield f"{path}:{number}: names the registry host {match.group()}"


def _report(faults: Iterator[str]) -> bool:
    """Prints each fault as it is found; true when there was none."""
    well = True
    for fault in faults:
        well = False
        print(fault, file=sys.stderr)
    return well


CHECKS: tuple[Callable[[], bool], ...] = (
    python_lint,
    python_format,
    cxx_format,
    cxx_layers,
    no_registry_host,
    pages,
    proof_current,
    results_current,
    stubs_current,
    surface_current,
    chapters_current,
    tests_collected,
    python_types,
    cxx_alone,
)


def run_all() -> list[str]:
    """Runs every check and returns the names of those that failed."""
    failed = []
    for check in CHECKS:
        say(f"check {check.__name__.replace('_', ' ')}")
        if not check():
            failed.append(check.__name__)
    return failed
