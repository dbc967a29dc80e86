"""The repository of a vendor: the sources of this one under the vendor's names, and the files of a project."""

from __future__ import annotations

import ast
import json
import re
import shutil
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

from environment import ROOT, Fault
from prerequisites import torch_releases, torch_series
from vendor import history
from vendor.chapters import BASE, Choice
from vendor.names import Names
from vendor.states import States
from weaver.sources.regions import without_marks

_TEMPLATES = Path("tools", "vendor", "templates")
_CHAPTERS = "CHAPTERS.md"
COPIED = (
    ".clang-format", ".editorconfig", ".gitignore", ".pre-commit-config.yaml",
    "CMakeLists.txt", "LICENSE", "cmake", "conformance", "csrc", "torch_openreg",
    "torch_openreg_autoload.py", "tests/__init__.py", "tests/conftest.py", "tests/layouts.py", "tests/offers.py",
    "tests/processes.py", "tests/aten", "tests/compile", "tests/distributed", "tests/driver",
    "tests/driver_conformance", "tests/driver_opencl", "tests/graph", "tests/interop", "tests/kernels",
    "tests/libraries", "tests/models", "tests/native", "tests/opinfo", "tests/profiler", "tests/python",
    "tests/runtime", "tests/serving",
    "tests/stress/memory.cpp", "tests/stress/tensors.py", "tools/build_backend.py",
    "tools/command.py", "tools/dev.py", "tools/driver.py", "tools/environment.py", "tools/extension.py",
    "tools/prerequisites.py", "tools/torch_preload.py", "tools/torch_requirement.py",
)  # fmt: skip
# The tests of this repository's own, each with what it tests. A vendor gets all others, by COPIED.
OWN_TESTS = {
    "tests/build": "the commands of the Makefile, the checks and the workflows of this repository",
    "tests/conformance": "the kit of backends, a distribution of its own, which a vendor runs and does not change",
    "tests/docs": "the pages of the guide, and its directives",
    "tests/examples": "programs of the pages, in `examples`",
    "tests/fuzz": "`make fuzz`",
    "tests/order.py": "the order in which `make test` runs the files",
    "tests/python_backend": "the backend in Python, an example of a page",
    "tests/stress/CMakeLists.txt": "`make stress`, which builds the driver and the pool of blocks under sanitizers",
    "tests/stress/block_pool.cpp": "the same",
    "tests/stress/driver.cpp": "the same",
    "tests/weaver": "`weaver`, which makes the pages",
}
# Bound to the guide: the example of one of its pages, and the counting of lines that its examples execute.
_LEFT = "cmake/Coverage.cmake"
_REMAINS = re.compile(r"__pycache__|\.(?:so|o)$|~$|/\.|^conformance/build/|\.egg-info/")
_COVERAGE = re.compile(r"^option\(\w+_COVERAGE .*\n|^if\(\w+_COVERAGE\)\n(?:.*\n)*?endif\(\)\n", re.MULTILINE)


def files(
    names: Names,
    chapters: Collection[str] | None = None,
    state: int | None = None,
    root: Path = ROOT,
    origin: str = "HEAD",
) -> dict[str, str]:
    """Texts by path: the whole repository, what the chapters need, or a state.

    ``root`` has the files of this repository at the commit ``origin``.

    Raises:
        Fault: names a chapter or state that does not exist, a source that has a variable of the device's name, or a
            file whose new name is another's.
    """
    choice = Choice(root, chapters, state)
    stands = "" if state is None else _stands(States(root), state)
    result: dict[str, str] = {}
    sources = {path: text for path, text in _sources(root) if choice.has(path)}
    # First, because another library name is no cure for it.
    for path, text in sources.items():
        if path.endswith(".py") and _has_variable(text, names.device):
            raise Fault(f"a backend cannot be called {names.device!r}: {path} has a variable of this name")
    for path, text in sources.items():
        theirs = names.put_into(path)
        if theirs in result:
            raise Fault(_clash(names, theirs))
        result[theirs] = names.put_into(_without_marks(path, choice.cut(path, text)), path)
    values = (
        _platform("serving" in choice.chapters)
        | _values(names, root, origin)
        | _extras_of_libraries(root, "libraries" in choice.chapters)
    )
    templates = root / _TEMPLATES
    for template in sorted(templates.rglob("*")):
        if template.is_file():
            path = str(template.relative_to(templates)).removesuffix(".in")
            text = template.read_text(encoding="utf-8").replace("{stands}", stands)
            for placeholder, value in values.items():
                text = text.replace(placeholder, value)
            result[names.put_into(path)] = text
    if state is None and choice.missing:
        # A file of its own: vendors rewrite the README, and could then not add a chapter without a conflict.
        result[_CHAPTERS] = _copied(choice).replace("{device}", names.device)
    folders = {str(folder) for path in result for folder in Path(path).parents}
    for path in result:
        if path.endswith(".py") and path.removesuffix(".py") in folders:
            raise Fault(f"a backend cannot be called {names.device!r}: the module {path} would be hidden by a folder")
    return result


def _clash(names: Names, path: str) -> str:
    """What is wrong with the names if they give two sources one path."""
    twice = f"it would have two files {path}"
    if not path.endswith(".h"):  # of all files, headers alone are named after the library
        return f"a backend cannot be called {names.device!r}: {twice}"
    what = "backend" if names.library == names.device else "library"
    cure = f"give another library name: LIBRARY={names.device}_torch"
    return f"a {what} cannot be called {names.library!r}: {twice}; {cure}"


def _has_variable(text: str, name: str) -> bool:
    """Whether a source that names the module `openreg` without a package gives ``name`` another meaning."""
    if not (re.search(rf"\b{name}\b", text) and re.search(r"\bopenreg\b", text)):
        return False  # most files, which need not be parsed
    found: set[str | None] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=bound) | ast.arg(arg=bound) | ast.ExceptHandler(name=bound):
                found.add(bound)
            case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
                found.add(bound)
            case ast.MatchAs(name=bound) | ast.MatchStar(name=bound) | ast.MatchMapping(rest=bound):
                found.add(bound)
            case ast.alias(name=module, asname=bound):
                found.add(bound or module.partition(".")[0])
    return {"openreg", name} <= found


def _stands(states: States, number: int) -> str:
    """What the README says about a state."""
    state = states[number]
    text = f"""
## State {number} of {len(states.all)}: {state.title}

What this state adds: {state.adds}.
The chapter `states` of the guide says what works by now{", and what comes next" if number < len(states.all) else ""}.
"""
    if number < len(states.all):
        text += f"""
    make vendor NAME={{device}} DEST=... STATE={number + 1}

in a clone of the guide adds the next one to this folder, and keeps what you have changed. What is said below, and in
CONTRIBUTING.md, of tensors, kernels and their tests, and what the workflows ask, holds for the last state.
"""
    return text


def _copied(choice: Choice) -> str:
    """What a choice has of the chapters and what it lacks."""
    added = [chapter for chapter in choice.chapters if chapter not in BASE]
    return f"""# What was copied

The base, which every backend needs{"".join(f", `{chapter}`" for chapter in added)}.
Left out are the chapters {", ".join(f"`{chapter}`" for chapter in choice.missing)}.

`make test` passes without them. `make conformance` fails, and with it the workflow `test`, at each check that one of
them would cure; the failure names the chapter.

    make vendor NAME={{device}} DEST=... CHAPTERS="{choice.missing[0]}"

in a clone of the guide adds a chapter to this folder, keeps what you have changed, and brings this file up to date;
`CHAPTERS=all` adds all of them, and removes it.
"""


def _sources(root: Path) -> Iterator[tuple[str, str]]:
    """The files of the copied folders, except what Python, a compiler, pip or an editor has left there."""
    known = _known_to_git(root)
    for copied in COPIED:
        top = root / copied
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            name = str(path.relative_to(root))
            is_source = not _REMAINS.search(name) and (known is None or name in known)
            if path.is_file() and name not in _LEFT and is_source:
                yield name, path.read_text(encoding="utf-8")


def _known_to_git(root: Path) -> set[str] | None:
    """The files that git has, or would add; None without a clone, or without git."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return None
    listed = history.git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return set(listed.stdout.split("\0")) if listed.returncode == 0 else None


def unassigned_tests(root: Path = ROOT) -> Iterator[str]:
    """One line for each folder or file of ``root/tests`` that is neither copied nor this repository's own."""
    assigned = {*COPIED, *OWN_TESTS}
    for top in sorted((root / "tests").iterdir()):
        files = [top] if top.is_file() else sorted(path for path in top.rglob("*") if path.is_file())
        names = [name for path in files if not _REMAINS.search(name := str(path.relative_to(root)))]
        left = [name for name in names if not any(f"{name}/".startswith(f"{each}/") for each in assigned)]
        if left:
            only = "" if len(left) == len(names) else f" {', '.join(left)}:"
            yield (
                f"tests/{top.name}:{only} no vendor gets these tests, and nothing says why: add them to COPIED in "
                "tools/vendor/tree.py; or, if they test nothing that a vendor changes, to OWN_TESTS there, with the "
                "reason"
            )


def _without_marks(path: str, text: str) -> str:
    return without_marks(path, _COVERAGE.sub("", text) if path == "CMakeLists.txt" else text)


def _values(names: Names, root: Path, origin: str) -> dict[str, str]:
    """What stands for each placeholder of a template, at that commit."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    # Before 2026-11-26, a commit had no list, and no template that reads it.
    releases = project.get("torch", {}).get("releases", torch_releases())
    series = [torch_series(release) for release in releases]
    return {
        "{device}": names.device,
        "{package}": names.package,
        "{prefix}": names.prefix,
        "{library}": names.library,
        "{environment}": names.library.upper(),
        "{origin}": commit("%H of %cs", origin),
        "{guide}": str(project["accelerator_conformance"]["guide"]),
        "{torch_releases}": json.dumps(releases),
        "{torch_reference}": releases[0],
        "{torch_series}": series[0],
        "{torch_range}": " to ".join(dict.fromkeys((series[0], series[-1]))),
    }


def _platform(is_wanted: bool) -> dict[str, str]:
    """The entry point by which vLLM finds the device; other placeholders in it are replaced later."""
    entry = '[project.entry-points."vllm.platform_plugins"]\n{device} = "{package}.integrations.vllm:platform"\n\n'
    return {"{platform}\n": entry if is_wanted else ""}


def _extras_of_libraries(root: Path, is_wanted: bool) -> dict[str, str]:
    """The libraries of users in the extras of pyproject.toml; empty without the chapter, since nothing imports them."""
    if not is_wanted:
        return {"{transformers}": "", "{libraries}\n": ""}
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    # An earlier commit may lack either, and then its template has no placeholder for it.
    transformers = "".join(f", {json.dumps(one)}" for one in extras["test"] if one.startswith("transformers"))
    listed = "".join(f"  {json.dumps(one)},\n" for one in extras.get("libraries", ()))
    what = "The libraries of users that have an integration: tests/libraries compares them with the CPU, if they are"
    return {
        "{transformers}": transformers,
        "{libraries}\n": f"# {what} installed.\nlibraries = [\n{listed}]\n",
    }


def commit(form: str = "%H", at: str = "HEAD") -> str:
    """The commit of the sources, in a format of git log; "unknown" without a clone, or without git."""
    if shutil.which("git") is None:
        return "unknown"
    # Without its commit, a copy could never be merged with a later one.
    if (ROOT / ".git").exists() and (asked := history.git(ROOT, "rev-parse", "--show-toplevel")).returncode != 0:
        raise Fault(f"git cannot read this clone of the guide: {asked.stderr.strip()}")
    # An unpacked archive may lie in a repository of its user's.
    if _git("rev-parse", "--show-toplevel") != str(ROOT):
        return "unknown"
    return _git("log", "-1", f"--format={form}", at, "--") or "unknown"


def _git(*words: str) -> str:
    """The output of git; empty if it fails."""
    return history.git(ROOT, *words).stdout.strip()
