"""Each command finds everything that it imports in an environment with only the extras that it names.

On a bare machine, a command installs only these. Where other commands have run, their packages hide missing ones.
"""

from __future__ import annotations

import ast
import os
import sys
from functools import cache
from pathlib import Path

import pytest
from command import Command
from commands import COMMANDS
from environment import ROOT, requirements
from prerequisites import torch_releases

from tests.build.venvs import ForeignVenv, closure, narrow_venv

_WEAVER = ("weaver/weaver/**/*.py", "docs/_ext/*.py", "docs/source/conf.py")
# The modules of the weaver that tools use where nothing is installed.
_ASKED = ("binding", "closure", "headers", "installed", "regions")
_SOURCES = tuple(
    f"weaver/weaver/{name}.py" for name in ("configuration", "sources/binding", "sources/closure", "sources/headers")
)
_KIT = ("conformance/accelerator_conformance/*.py",)
_EXAMPLES = ("examples/**/*.py", "tests/libraries/networks.py", "tests/opinfo/*.py", *_KIT)
_BUILD = (
    "tools/build_backend.py", "csrc/kernels/library/*.py", "torch_openreg/*.py", "torch_openreg/openreg/**/*.py",
    "torch_openreg/compile/**/*.py",
)  # fmt: skip
# A user calls these, and has the library that each is for.
_INTEGRATIONS = ("torch_openreg/integrations/*.py",)

# The Python files that a command runs, directly or indirectly.
SOURCES: dict[str, tuple[str, ...]] = {
    "html": (*_BUILD, *_WEAVER, *_KIT),
    "epub": (*_BUILD, *_WEAVER),
    "pdf": (*_BUILD, *_WEAVER, *_KIT, "tools/pdf.py"),
    "doctest": (*_BUILD, *_WEAVER, *_EXAMPLES, *_INTEGRATIONS),
    "proof": (*_BUILD, *_WEAVER, *_EXAMPLES, *_INTEGRATIONS),
    "mutate": (*_BUILD, *_WEAVER, *_EXAMPLES, *_INTEGRATIONS),
    "livehtml": (*_BUILD, *_WEAVER, *_KIT),
    "browser": ("tools/browser.py",),
    "lock": _WEAVER,
    "torch": (),
    "build": _BUILD,
    "test": (*_BUILD, *_WEAVER, *_EXAMPLES, *_INTEGRATIONS, "tools/**/*.py", "tests/**/*.py", "benchmarks/*.py"),
    "conformance": (*_BUILD, *_KIT),
    "opinfo": (*_BUILD, "tests/opinfo/*.py", "tests/conftest.py"),
    "models": (*_BUILD, "benchmarks/_turns.py", "benchmarks/models.py", "tests/models/*.py"),
    "libraries": (*_BUILD, *_INTEGRATIONS, "tools/libraries.py", "tests/libraries/*.py", "tests/conftest.py"),
    "stubs": (*_BUILD, "tools/stubs/*.py"),
    "surface": (*_BUILD, "tools/surface.py", *_SOURCES),
    "check": (*_BUILD, *_WEAVER, *_EXAMPLES, *_INTEGRATIONS, "tools/**/*.py", "tests/**/*.py", "benchmarks/*.py"),
    "stress": (*_BUILD, "tests/stress/*.py"),
    "sanitize": (
        *_BUILD,
        "tools/sanitized.py",
        "weaver/weaver/proof/sandbox.py",
        *(f"tests/{folder}/*.py" for folder in ("aten", "runtime", "python")),
    ),
    "fuzz": (*_BUILD, "tools/fuzz.py", "tests/fuzz/*.py", "tests/opinfo/*.py"),
    "bench": (*_BUILD, "benchmarks/*.py", "tests/models/*.py"),
    "instructions": (*_BUILD, "tools/instructions/*.py"),
    "vendor": ("tools/vendor/*.py", *_SOURCES),
    "chapters": ("tools/vendor/*.py", *_SOURCES),
    "states": ("tools/vendor/*.py", *_SOURCES),
    "cross": (*_BUILD, "tools/cross/*.py"),
    "next": ("tools/next_torch.py", "tools/surface.py", "weaver/weaver/sources/headers.py"),
}
_FRAMEWORK = ["python", "-c", "import torch.testing._internal.common_utils"]
# The imports of the kit when it writes its sheet, without the list of its checks, which takes ten seconds.
_SHEET = ["python", "-c", "import accelerator_conformance.session, accelerator_conformance.poster"]
_READ = ["python", "-m", "sphinx", "-q", "-b", "dummy", "-c", "docs/source", "{page}", "{out}"]
_HELP = ["python", "-c", "from commands import COMMANDS; COMMANDS['{name}'].run(['--help'])"]
# The parts of each command that run in seconds. {page} is a folder with one page, {out} an empty one.
RUNS: dict[str, list[list[str]]] = {
    "html": [_READ, _SHEET, _FRAMEWORK],
    "epub": [[word if word != "dummy" else "epub" for word in _READ]],
    "pdf": [_READ, _HELP, ["python", "-c", "import bs4, pikepdf"]],
    "doctest": [["python", "-c", "import weaver.run.prove, weaver.run.runner"]],
    "proof": [_HELP],
    "mutate": [_HELP],
    "livehtml": [["python", "-m", "sphinx_autobuild", "--version"]],
    "browser": [_HELP],
    "lock": [_READ],
    "test": [["python", "-m", "pytest", "-n0", "--version"]],
    "conformance": [_SHEET, _FRAMEWORK],
    "opinfo": [_FRAMEWORK, ["python", "-m", "pytest", "--version"]],
    "check": [[tool, "--version"] for tool in ("ruff", "mypy", "clang-format")],
    "stress": [[tool, "--version"] for tool in ("cmake", "ninja")],
    "fuzz": [_HELP, _FRAMEWORK],
    "instructions": [_HELP],
    "vendor": [_HELP, *([tool, "--version"] for tool in ("ruff", "clang-format"))],
    "chapters": [_HELP],
    "states": [_HELP],
    "cross": [_HELP, *([tool, "--version"] for tool in ("cmake", "ninja"))],
    "next": [_HELP],
}
_PAGE = "# A page\n\n```{conformance-poster}\n```\n"


@pytest.fixture(scope="module")
def environments() -> dict[tuple[str, ...], ForeignVenv]:
    """The environments that have been created, by their contents."""
    return {}


def installs(command: Command) -> list[str]:
    """The requirements that a command installs on a bare machine."""
    ours = ["torch_openreg"] if command.extension else []
    return [f"torch=={torch_releases()[0]}", *requirements(*command.extras), *ours]


def third_party(patterns: tuple[str, ...]) -> dict[str, str]:
    """The third-party modules that files import, by name, each with one file that imports it."""
    found: dict[str, str] = {}
    for file in sorted(file for pattern in patterns for file in ROOT.glob(pattern)):
        for name in sorted(_imported(file)):
            if name not in sys.stdlib_module_names and not _is_ours(name, file):
                found.setdefault(name, str(file.relative_to(ROOT)))
    return found


@cache
def _imported(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _is_ours(name: str, file: Path) -> bool:
    folders = (file.parent, ROOT, ROOT / "tools", ROOT / "conformance", ROOT / "weaver", ROOT / "csrc/kernels/library")
    return any((folder / f"{name}.py").exists() or (folder / name).is_dir() for folder in folders)


def missing(made: ForeignVenv, modules: dict[str, str]) -> list[str]:
    """The modules that an environment does not have."""
    code = f"from importlib.util import find_spec; print(*(name for name in {list(modules)} if not find_spec(name)))"
    ran = made.python(code)
    assert ran.returncode == 0, ran.stderr
    return [f"{name}, which {modules[name]} imports" for name in ran.stdout.split()]


def runs(name: str, made: ForeignVenv, folder: Path) -> list[str]:
    """Runs the parts of a command that can be run; returns the faults."""
    page = folder / "page"
    page.mkdir()
    (page / "index.md").write_text(_PAGE, encoding="utf-8")
    faults = []
    for words in RUNS.get(name, []):
        filled = [word.format(name=name, page=page, out=folder / "out") for word in words]
        # Without the programs of our own environment, which follow those of a foreign one on its PATH.
        modules = os.pathsep.join(map(str, (ROOT / "tools", ROOT, ROOT / "conformance", ROOT / "weaver")))
        paths = {"PYTHONPATH": modules, "PATH": f"{made.prefix / 'bin'}:{os.defpath}"}
        ran = made.run(*filled, cwd=ROOT, **paths)
        if ran.returncode or "No module named" in ran.stdout + ran.stderr:
            faults.append(f"{' '.join(filled)}\n{ran.stdout}{ran.stderr}")
    return faults


def test_all_commands_are_tried() -> None:
    assert list(SOURCES) == list(COMMANDS)
    assert set(RUNS) <= set(COMMANDS)
    targets = (ROOT / "Makefile").read_text(encoding="utf-8").partition(".PHONY: ")[2].partition("\n")[0].split()
    assert set(targets) - set(COMMANDS) == {"help", "clean", "python"}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.long
def test_a_command_names_all_extras_that_it_needs(
    name: str, environments: dict[tuple[str, ...], ForeignVenv], tmp_path: Path
) -> None:
    wanted = installs(COMMANDS[name])
    key = tuple(sorted(closure(wanted)))
    if key not in environments:
        environments[key] = narrow_venv(tmp_path / "venv", wanted)
    made = environments[key]
    faults = missing(made, third_party(SOURCES[name])) + runs(name, made, tmp_path)
    assert not faults, f"make {name} does not find, with its extras alone:\n" + "\n".join(faults)


@pytest.mark.long
def test_an_extra_that_is_not_named_is_missed(tmp_path: Path) -> None:
    command = COMMANDS["html"]._replace(extras=("build", "docs"))
    made = narrow_venv(tmp_path / "venv", installs(command))
    assert "pytest, which conformance/accelerator_conformance/__main__.py imports" in missing(
        made, third_party(SOURCES["html"])
    )
    assert "No module named pytest" in "".join(runs("html", made, tmp_path)).replace("'", "")
