"""make vendor: the accepted names, and the repository that it writes."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import maps
import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a separate package
from environment import ROOT, Fault, requirements
from prerequisites import torch_releases
from vendor import chapters, cli, conforms, history, names, place, record, shape, tree, trial, update
from vendor.states import States
from weaver.configuration import load
from weaver.sources.closure import Sources

from tests.build.makefile import recipe

ACME = names.Names("acme", "am")
# A device whose name is already used by its SDK.
TAKEN = names.Names("acme", "am", "acme_rt")


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return tree.files(ACME)


@pytest.fixture(scope="module")
def library_files() -> dict[str, str]:
    return tree.files(TAKEN)


@pytest.fixture(autouse=True)
def identity(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the author that git knows, whatever the machine has configured."""
    config = tmp_path_factory.mktemp("home") / "gitconfig"
    config.write_text("[user]\n\tname = Ann\n\temail = ann@acme.example\n", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "PyTorch reads letters and underscores"),
        ("Acme", "and no capitals"),
        ("acme1", "a digit is its index"),
        ("acme-x", "letters and underscores"),
        ("openreg", "that is the name that is replaced"),
        ("my_openreg", "that is the name that is replaced"),
        ("class", "it is a keyword of Python"),
        ("union", "it is to be a namespace"),
        ("acme_", "the name of a package ends with a letter"),
        ("at", "it is to be a namespace"),
        ("cuda", "it is a device of PyTorch's own: cpu, cuda,"),
        ("mkldnn", "it is a device of PyTorch's own"),
        ("nn", r"torch\.nn exists already"),
        ("data", r"torch\.Tensor\.data exists already"),
        ("leaf", r"torch\.Tensor\.is_leaf exists already"),
        ("train", r"torch\.nn\.Module\.train exists already"),
        ("npu", "a package torch_npu exists already"),
        ("musa", "a package torch_musa exists already"),
        ("python", r"PyTorch has a libtorch_python\.so, and so would the backend"),
        ("global_deps", r"PyTorch has a libtorch_global_deps\.so, and so would the backend"),
    ],
)
@pytest.mark.long
def test_names_that_are_refused(name: str, why: str) -> None:
    with pytest.raises(Fault, match=rf"^a backend cannot be called '{re.escape(name)}': .*{why}"):
        names.chosen(name, None)


@pytest.mark.parametrize(
    ("name", "prefix", "why"),
    [
        ("acme", "A", "'A': give two to eight letters, in lower case"),
        ("z", None, "'z': give two to eight letters, in lower case"),
        ("acme", "cu", "'cu': those of another driver do; give others"),
        ("acme", "torch", "'torch': those of another driver do; give others"),
    ],
)
def test_prefixes_that_are_refused(name: str, prefix: str | None, why: str) -> None:
    with pytest.raises(Fault, match=rf"^functions of a driver cannot begin with {why}, as PREFIX=am \(--prefix am\)$"):
        names.chosen(name, prefix)


@pytest.mark.parametrize(
    ("library", "why"),
    [
        ("Acme", "lower-case letters, digits, and single underscores"),
        ("acme__rt", "lower-case letters, digits, and single underscores"),
        ("at", r"it is a word of C\+\+, or a library or namespace"),
        ("torch_cpu", r"it is a word of C\+\+, or a library or namespace"),
        ("openreg_rt", "that is the name that is replaced"),
        ("torch_acme", r"libtorch_acme\.so is the backend itself"),
        ("libacme", r"the file would be liblibacme\.so"),
        ("stdc++", "lower-case letters"),
        *((name, "a namespace inside PyTorch's, or the driver's") for name in ("native", "driver")),
        *((name, "a header of the C library has the name") for name in ("sync", "link", "wait", "stat", "read")),
        *((name, r"CMake has a target of this name; .* LIBRARY=acme_torch") for name in ("help", "clean", "install")),
    ],
)
def test_libraries_that_are_refused(library: str, why: str) -> None:
    with pytest.raises(Fault, match=rf"^a library and namespace cannot be called '{re.escape(library)}': .*{why}"):
        names.chosen("acme", None, library)


def test_a_library_that_the_machine_has_is_refused_unless_it_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names.ctypes.util, "find_library", {"acme": "libacme.so.2", "acme_rt": "libacme_rt.so"}.get)
    with pytest.raises(Fault, match=r"'acme': this machine has a libacme\.so\.2 already, .* LIBRARY=acme_torch$"):
        names.chosen("acme", None)
    with pytest.raises(Fault, match=r"'acme_rt': this machine has a libacme_rt\.so already"):
        names.chosen("acme", None, "acme_rt")
    assert names._library_fault(names.Names("acme", "am", "acme_torch"), is_given=True) is None
    assert names._library_fault(ACME, is_given=True) is None


@pytest.mark.parametrize("name", ["event", "task"])
@pytest.mark.long
def test_a_name_that_makes_two_files_one_is_refused(name: str, tmp_path: Path) -> None:
    why = f"cannot be called {name!r}: it would have two files csrc/driver/{name}.h; give another library name"
    with pytest.raises(Fault, match=f"^a backend {why}: LIBRARY={name}_torch$"):
        cli.main(["--name", name, "--dest", str(tmp_path / "new")])
    with pytest.raises(Fault, match=f"^a library {why}: LIBRARY=acme_torch$"):
        tree.files(names.Names("acme", "am", name))
    assert list(tmp_path.iterdir()) == []
    assert f"csrc/driver/{name}_torch.h" in tree.files(names.Names(name, "am", f"{name}_torch"))


def test_a_device_that_hides_a_module_is_refused() -> None:
    why = r"a backend cannot be called 'stable': the module torch_stable/stable\.py would be hidden by a folder"
    with pytest.raises(Fault, match=f"^{why}$"):
        tree.files(names.Names("stable", "st"))


@pytest.mark.parametrize("library", ["", "acme_rt"])
def test_a_device_that_makes_two_files_one_is_refused_whatever_the_library(library: str) -> None:
    why = "cannot be called 'integrations': it would have two files torch_integrations/integrations/__init__.py"
    with pytest.raises(Fault, match=f"^a backend {why}$"):
        tree.files(names.Names("integrations", "in", library))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("stream", "compile/dynamo.py"),  # a function of a class
        ("self", "compile/dynamo.py"),  # an argument
        ("count", "integrations/_library.py"),
        ("chosen", "integrations/_lightning.py"),
        ("functools", "compile/dynamo.py"),  # an import
        ("len", "integrations/_library.py"),  # a function of Python
        ("host", "tests/runtime/test_hooks.py"),  # a target of a loop
    ],
)
@pytest.mark.long
def test_a_name_that_a_source_gives_a_variable_is_refused(name: str, path: str) -> None:
    """The module `openreg`, where it is named without its package, and the variable would be one."""
    path = path if path.startswith("tests/") else f"torch_openreg/{path}"
    for library in ("", "acme_rt"):
        with pytest.raises(Fault, match=f"^a backend cannot be called {name!r}: {path} has a variable of this name$"):
            tree.files(names.Names(name, "am", library))


@pytest.mark.long
def test_an_ordinary_name_is_no_variable() -> None:
    for name in ("grid", "my_npu"):
        assert f"torch_{name}/compile/dynamo.py" in tree.files(names.Names(name, "am", "acme_rt"))


def test_an_argument_elsewhere_is_no_variable_of_the_module() -> None:
    assert not tree._has_variable("def f(grid): return torch.openreg.current_device()\n", "grid")
    assert not tree._has_variable("from tests.driver import openreg as driver\ndef f(grid): ...\n", "grid")
    assert not tree._has_variable("from torch_openreg import openreg\nopenreg.grid(grid=1)\n", "grid")
    assert tree._has_variable("from torch_openreg import openreg\ndef f(grid): ...\n", "grid")


def test_pytorch_is_asked_in_the_environment_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The subprocess inherits variables such as PATH and LD_LIBRARY_PATH, which locate compilers and libraries."""
    (tmp_path / "torch.py").write_text("raise SystemExit('another torch answers')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(Fault, match="another torch answers"):
        names.chosen("acme", None)


@pytest.mark.long
def test_the_prefix_is_the_initials() -> None:
    assert names.chosen("acme", None) == ACME
    assert [names.chosen(name, None).prefix for name in ("my_npu", "xfr", "gaudi")] == ["mp", "xf", "gd"]
    assert names.chosen("acme", "acme").prefix == "acme"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ('torch.ones(2, device="openreg:1")', 'torch.ones(2, device="acme:1")'),
        (
            "check(orMemcpyAsync(to, from, orMemcpyHostToDevice));",
            "check(amMemcpyAsync(to, from, amMemcpyHostToDevice));",
        ),
        ("OR_API orError_t orMalloc(void** pointer);", "AM_API amError_t amMalloc(void** pointer);"),
        ("global: or[A-Z]*;", "global: am[A-Z]*;"),
        ("getenv(OPENREG_DEVICE_COUNT)", "getenv(ACME_DEVICE_COUNT)"),
        ("import torch_openreg._C; x.is_openreg", "import torch_acme._C; x.is_acme"),
        (
            "for or more, or Else, orElse1? memory_order, ordinal",
            "for or more, or Else, amElse1? memory_order, ordinal",
        ),
    ],
)
def test_what_is_renamed(ours: str, theirs: str) -> None:
    assert ACME.put_into(ours) == theirs


@pytest.mark.parametrize("named", [names.Names("or_chip", "oc"), names.Names("acme", "oc", "or_chip")])
def test_names_that_begin_like_the_drivers_functions(named: names.Names) -> None:
    assert named.put_into("OR_API orError_t; OPENREG_LAUNCH") == "OC_API ocError_t; OR_CHIP_LAUNCH"


def test_namespaces_of_the_sources_are_no_names_of_a_vendor() -> None:
    found: set[str] = set()
    for folder in ("csrc", "conformance/driver"):
        for file in (each for each in (ROOT / folder).rglob("*") if each.suffix in {".cpp", ".h", ".in"}):
            named = re.findall(r"^\s*(?:inline )?namespace ([\w:]+)", file.read_text(encoding="utf-8"), re.MULTILINE)
            found |= {part for name in named for part in name.split("::")}
    assert found - set(names.TAKEN_NAMESPACES) == {"at", "openreg", "openreg_stable", "torch"}


@pytest.mark.parametrize(
    ("ours", "path", "theirs"),
    [
        (
            "namespace openreg::driver {\n}  // namespace openreg",
            "",
            "namespace acme_rt::driver {\n}  // namespace acme_rt",
        ),
        ("&openreg::add_kernel, openreg::LibraryLoop", "", "&acme_rt::add_kernel, acme_rt::LibraryLoop"),
        ("// schema: openreg::soft_cap_backward(", "", "// schema: acme::soft_cap_backward("),
        ('#include "driver/openreg_host_kernels.h"', "", '#include "driver/acme_rt_host_kernels.h"'),
        ("csrc/driver/openreg.h", "", "csrc/driver/acme_rt.h"),
        (
            "libopenreg.so libopenreg_stable.so libtorch_openreg.so",
            "",
            "libacme_rt.so libacme_rt_stable.so libtorch_acme.so",
        ),
        ("OPENREG_LAUNCH OPENREG_EXPORT", "", "ACME_RT_LAUNCH ACME_RT_EXPORT"),
        ("torch.ones(2, device='openreg'), torch.ops.openreg_stable, on OPENREG device 7", "", None),
        ("TORCH_LIBRARY(openreg, m) namespace openreg_stable {", "", None),
        (
            r"a library openreg, add_library(openreg ...), r'add_library\((?:openreg\s'",
            "",
            r"a library acme_rt, add_library(acme_rt ...), r'add_library\((?:acme_rt\s'",
        ),
        ("import torch_openreg.openreg", "", None),
        (
            "add_library(openreg SHARED\n  torch_openreg openreg)",
            "csrc/CMakeLists.txt",
            "add_library(acme_rt SHARED\n  torch_acme acme_rt)",
        ),
    ],
)
def test_what_is_named_after_the_library(ours: str, path: str, theirs: str | None) -> None:
    assert TAKEN.put_into(ours, path) == (ACME.put_into(ours, path) if theirs is None else theirs)


def test_operators_are_named_after_the_device(library_files: dict[str, str]) -> None:
    schemas = re.findall(r'm\.def\("(\w+)\(', (ROOT / "csrc/aten/custom/schemas.cpp").read_text(encoding="utf-8"))
    assert tuple(schemas) == names.OPERATORS
    assert "TORCH_LIBRARY(acme, m)" in library_files["csrc/aten/custom/schemas.cpp"]


def test_a_library_of_its_own_leaves_the_name_of_the_device_to_the_sdk(library_files: dict[str, str]) -> None:
    """No library, header, namespace, target, macro or environment variable has the bare name of the device."""
    taken = re.compile(r"\bnamespace acme\b|\blibacme\b|\bACME_(?!RT_)|\bacme\.h\b|::acme::")
    assert {path: found for path, text in library_files.items() if (found := taken.findall(text))} == {}
    for path, text in library_files.items():
        if path.endswith(("CMakeLists.txt", ".cmake")):
            assert re.findall(r"\bacme\b", text) == [], path
    assert "csrc/driver/acme_rt.h" in library_files
    assert "csrc/driver/acme.h" not in library_files
    assert "torch_acme/acme/__init__.py" in library_files


def test_nothing_of_ours_is_left(files: dict[str, str], library_files: dict[str, str]) -> None:
    ours = re.compile(r"\bor[A-Z[]\w+|LITERALINCLUDE|NOT PROVEN|docs/|examples/")
    for tree_of in (files, library_files):
        name = "openreg|6f70656e|'o', 'p', 'e', 'n'"  # also in hexadecimal, and letter by letter
        left = [path for path, text in tree_of.items() if re.search(name, path + text, re.IGNORECASE)]
        assert left == ["NOTICE"]
        texts = {path: re.sub(r"https://\S+", "", text) for path, text in tree_of.items()}
        assert {path: found for path, text in texts.items() if (found := ours.findall(text))} == {}
        unfilled = re.compile(
            r"(?<!\$)\{(?:device|package|prefix|library|libraries|transformers|environment|year|origin|guide)\}"
        )
        templates = ("README.md", "CONTRIBUTING.md", "NOTICE", "pyproject.toml", "tools/series.py", ".github/")
        assert [path for path in tree_of if path.startswith(templates) and unfilled.search(tree_of[path])] == []


def test_what_is_named_is_there(files: dict[str, str]) -> None:
    """Links and paths in texts and comments name files and folders that were copied, or that a build creates."""
    folders = {parent.as_posix() for path in files for parent in Path(path).parents}
    made = {"torch_acme/_build_info.py", "torch_acme/include", "torch_acme/lib", "torch_acme/native"}
    made |= {"tests/driver/test_", "tests/kernels/test_"}
    tops = "csrc|tests|tools|cmake|conformance|docs|examples|benchmarks|weaver|torch_acme|\\.github"
    named = re.compile(rf"(?<![\w/.<$}}-])((?:{tops})/[\w./]*\w)")
    gone = {
        (path, name)
        for path, text in files.items()
        for name in named.findall(re.sub(r"https://\S+", "", text).replace("\\.", "."))  # as in a pattern
        if name not in files and name not in folders and name not in made
    }
    assert gone == set()
    for path, text in files.items():
        if path.endswith(".md"):
            for link in re.findall(r"\]\(([^)#]+)", text):
                assert link.startswith("https://") or os.path.normpath(Path(path).parent / link) in files, (path, link)


def test_commands_that_are_named_are_there(files: dict[str, str]) -> None:
    """A vendor has no `make stress`; `make vendor` is a command of the guide, as the texts that name it say."""
    there = {*re.findall(r"^    \"(\w+)\": Command", files["tools/commands.py"], re.MULTILINE), "vendor"}
    named = {path: set(re.findall(r"`make (\w+)", text)) for path, text in files.items()}
    assert {path: commands - there for path, commands in named.items() if commands - there} == {}


def test_workflows(files: dict[str, str]) -> None:
    workflows = {path: text for path, text in files.items() if path.startswith(".github/workflows/")}
    assert {Path(path).stem for path in workflows} == {"test", "next-torch", "pytorch-relay"}
    for path, text in workflows.items():
        parsed = yaml.safe_load(text)
        assert parsed["name"] == Path(path).stem
        assert f"`{parsed['name']}`" in files["CONTRIBUTING.md"]
        assert parsed["permissions"] == {"contents": "read"}
        assert "secrets." not in text
        for job in parsed["jobs"].values():
            assert job["timeout-minutes"]
            for step in job["steps"]:
                # The relay's action has no version other than its main branch; the jobs that use it do nothing else.
                action = step.get("uses", "actions/none@v1")
                assert re.fullmatch(r"actions/[\w/-]+@v\d+", action) or len(job["steps"]) == 1, (path, action)
                for target in re.findall(r"\bmake (\w+)", step.get("run", "")):
                    assert re.search(rf"^    \"{target}\": Command", files["tools/commands.py"], re.MULTILINE), target
        for variable in re.findall(r"vars\.(\w+)", text):
            assert f"| `{variable}` |" in files["CONTRIBUTING.md"], variable
    test = yaml.safe_load(workflows[".github/workflows/test.yml"])
    releases = tomllib.loads(files["pyproject.toml"])["tool"]["torch"]["releases"]
    assert releases == list(torch_releases())
    assert test["jobs"]["test"]["strategy"]["matrix"] == {"python": ["3.11", "3.12", "3.13"], "torch": releases}
    linters = tomllib.loads(files["pyproject.toml"])["project"]["optional-dependencies"]["lint"]
    (installs,) = (step["run"] for step in test["jobs"]["lint"]["steps"] if "pip install" in step.get("run", ""))
    assert set(re.findall(r'"([^"]+)"', installs)) < set(linters)


def test_only_the_jobs_that_report_to_pytorch_can_speak_for_the_repository(files: dict[str, str]) -> None:
    jobs = yaml.safe_load(files[".github/workflows/pytorch-relay.yml"])["jobs"]
    assert {name: job.get("permissions") for name, job in jobs.items()} == {
        "begin": {"id-token": "write"},
        "test": None,
        "end": {"id-token": "write"},
    }
    assert {name: len(jobs[name]["steps"]) for name in ("begin", "end")} == {"begin": 1, "end": 1}


def test_another_release_of_pytorch_is_written_into_the_list(library_files: dict[str, str], tmp_path: Path) -> None:
    place.write(library_files, tmp_path / "acme")

    def series(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "tools/series.py", *arguments]
        return subprocess.run(command, cwd=tmp_path / "acme", capture_output=True, text=True, check=False)

    assert "name a release" in series().stderr
    assert "name a release" in series("next").stderr
    file = tmp_path / "acme" / "pyproject.toml"

    def listed() -> list[str]:
        releases: list[str] = tomllib.loads(file.read_text(encoding="utf-8"))["tool"]["torch"]["releases"]
        return releases

    newest = torch_releases()[-1]
    for release, others in ((f"{newest}a0+gitabc", torch_releases()[:-1]), ("9.1.0", None)):
        expected = [release, *(others if others is not None else listed())]
        ran = series(release)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert listed() == expected
    file.write_text(file.read_text(encoding="utf-8") + "\n[other]\nreleases = []\n", encoding="utf-8")
    assert "nothing was changed" in series("9.2.0").stderr
    assert listed()[0] == "9.1.0"


@pytest.mark.long
def test_the_linters_agree_with_what_is_written(tmp_path: Path) -> None:
    """In one repository with longer names than ours, one with shorter names, and the first states of one."""
    longer = names.Names("my_neural_unit", "mnu", "neural_unit_runtime")
    for chosen, state in ((longer, None), (ACME, None), (ACME, 1), (ACME, 2)):
        shaped = shape.formatted(tree.files(chosen, state=state))
        folder = tmp_path / f"{chosen.device}_{state}"
        place.write(shaped, folder)
        sources = [path for path in shaped if path.endswith((".cpp", ".h"))]
        tools = str(Path(sys.executable).parent)
        for command in (["ruff", "check"], ["ruff", "format", "--check"], ["clang-format", "-n", "-Werror", *sources]):
            ran = subprocess.run([f"{tools}/{command[0]}", *command[1:]], cwd=folder, capture_output=True, text=True)
            assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_formatter_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shape.formatted({"README.md": "text"}) == {"README.md": "text"}
    with pytest.raises(Fault, match="ruff is not installed, which lays out the renamed sources: pip install ruff"):
        shape.formatted({"a.py": "a=1"})


def test_every_source_is_there(files: dict[str, str]) -> None:
    """All files that CMake names or sources include, and the entry points of pytest and pip."""
    csrc = files["csrc/CMakeLists.txt"] + files["csrc/driver/CMakeLists.txt"]
    for source in re.findall(r"(?:aten|runtime|stable|python)/\w+\.cpp", csrc):
        assert f"csrc/{source}" in files, source
    for path, text in files.items():
        for header in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            folders = ("csrc", "csrc/driver", "conformance/driver", str(Path(path).parent))
            assert {os.path.normpath(f"{folder}/{header}") for folder in folders} & set(files), (path, header)
    assert {"torch_acme/__init__.py", "torch_acme_autoload.py", "csrc/driver/acme.h", "tests/driver/acme.py"} <= set(
        files
    )
    for path, text in files.items():
        if path.endswith(".py"):
            compile(text, path, "exec")


def test_its_commands_name_extras_that_it_has(files: dict[str, str], tmp_path: Path) -> None:
    place.write(files, tmp_path / "acme")
    code = "from commands import COMMANDS as all; print(json.dumps({name: each.extras for name, each in all.items()}))"
    ran = subprocess.run(
        [sys.executable, "-c", f"import json; {code}"],
        cwd=tmp_path / "acme",
        env={**os.environ, "PYTHONPATH": "tools"},
        capture_output=True,
        text=True,
        check=True,
    )
    extras = tomllib.loads(files["pyproject.toml"])["project"]["optional-dependencies"]
    assert json.loads(ran.stdout) == {
        "torch": [],
        "build": ["build"],
        "test": ["build", "test"],
        "conformance": ["build", "test"],
        "lint": ["lint"],
    }
    # For the users of the device, and for the tests that are skipped without it.
    assert set(extras) == {"build", "test", "lint", "libraries"}
    assert extras["libraries"] == requirements("libraries")


@pytest.mark.long
def test_its_linters_see_every_source_and_its_commands_refuse_what_they_ignore(
    files: dict[str, str], tmp_path: Path
) -> None:
    """Of a driver in a folder of its own, and none that git ignores."""
    top = tmp_path / "acme"
    some = {path: text for path, text in files.items() if path.startswith(("tools/", "pyproject", "."))}
    place.write(shape.formatted(some), top)
    for name in ("my_driver/memory.cpp", "build/made.cpp"):
        (top / name).parent.mkdir()
        (top / name).write_text("int  f( );\n")

    def ran(name: str, *arguments: str) -> tuple[int, str]:
        code = "import sys; from commands import COMMANDS as all; one = all[sys.argv[1]]; "
        code += "one.check(sys.argv[1], sys.argv[2:]); one.run(sys.argv[2:])"
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        variables = {**os.environ, "PYTHONPATH": "tools", "PATH": path}
        done = subprocess.run([sys.executable, "-c", code, name, *arguments], cwd=top, env=variables,
                              capture_output=True, text=True, check=False)  # fmt: skip
        return done.returncode, (done.stderr or done.stdout).splitlines()[-1]

    no_repository = "git cannot list the sources: fatal: not a git repository"
    assert no_repository in ran("lint")[1]
    git(top, "init", "--quiet")
    assert ran("lint") == (1, "make lint: clang-format failed; see above, or run make lint ARGS=--fix")
    assert ran("lint", "--fix") == (0, "make lint: all is as ruff and clang-format lay it out")
    assert (top / "my_driver/memory.cpp").read_text() == "int f();\n"
    assert (top / "build/made.cpp").read_text() == "int  f( );\n"
    assert ran("lint", "--fxi") == (2, "make lint: error: unrecognized arguments: --fxi")
    for name in ("build", "torch"):
        assert ran(name, "-x") == (1, f"environment.Fault: make {name} takes no ARGS, got -x; run it without")


@pytest.mark.parametrize(
    ("wanted", "number"), [([], None), (["amp"], None), (["libraries"], None), (None, 5), (None, 8)]
)
def test_libraries_of_users_are_extras_where_something_imports_them(
    wanted: list[str] | None, number: int | None
) -> None:
    written = tree.files(ACME, wanted, number)
    has_libraries = any(path.startswith("tests/libraries/") for path in written)
    assert has_libraries == (wanted == ["libraries"] or number == 8)
    project = written.pop("pyproject.toml")
    extras = tomllib.loads(project)["project"]["optional-dependencies"]
    assert set(extras) == {"build", "test", "lint"} | ({"libraries"} if has_libraries else set())
    imports = any(re.search(r"^ *(?:from|import) transformers\b", text, re.MULTILINE) for text in written.values())
    assert ("transformers" in project) == imports == has_libraries


def test_the_tests_import_nothing_else(files: dict[str, str]) -> None:
    modules = {f"{path.removesuffix('.py').replace('/', '.')}" for path in files if path.endswith(".py")} | {
        "tests.conftest",
        "tests.models",
    }
    for path, text in files.items():
        if path.startswith("tests/"):
            for module in re.findall(
                r"^from ((?:tests|tools|docs|examples|benchmarks)[\w.]*) import", text, re.MULTILINE
            ):
                assert module in modules or any(other.startswith(f"{module}.") for other in modules), (path, module)


@pytest.mark.parametrize(
    ("wanted", "number"),
    [
        (None, None),
        ([], None),
        *(([chapter], None) for chapter in sorted({*chapters.TESTS, *chapters._FOLDERS.values()})),
        *((None, state.number) for state in States(ROOT).all),
    ],
)
def test_what_the_tests_import_is_there(wanted: list[str] | None, number: int | None) -> None:
    """For each choice of chapters, and at each state."""
    written = tree.files(ACME, wanted, number)
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in written}
    packages = {parent.as_posix().replace("/", ".") for path in written for parent in Path(path).parents}
    built = {"torch_acme._C", "torch_acme._build_info"}
    for path, text in written.items():
        if path.startswith("tests/") and path.endswith(".py"):
            for module, names_of in re.findall(
                r"^ *from ((?:tests|torch_acme)[\w.]*) import (.+)$", text, re.MULTILINE
            ):
                assert module in modules | packages | built, f"{path} imports {module}"
                if module in packages and module not in modules:
                    for name in re.findall(r"(\w+)(?: as \w+)?,?", names_of.partition("#")[0]):
                        assert f"{module}.{name}" in modules, f"{path} imports {module}.{name}"


def test_every_test_is_a_vendors_or_has_a_reason_to_stay() -> None:
    assert list(tree.unassigned_tests()) == []
    for name, tested in tree.OWN_TESTS.items():
        assert (ROOT / name).exists(), f"{name} is gone; take it out of OWN_TESTS in tools/vendor/tree.py"
        assert tested
        assert not [copied for copied in tree.COPIED if f"{copied}/".startswith(f"{name}/")], name
    for folder, chapter in chapters._FOLDERS.items():
        copied = any(folder.startswith(f"{each}/") for each in tree.COPIED)
        assert copied, f"{folder} belongs to the chapter {chapter}, and is not in COPIED of tools/vendor/tree.py"


def test_a_folder_of_tests_that_nobody_assigned_is_named(tmp_path: Path) -> None:
    for name in ("tests/aten/test_copy.py", "tests/stress/new.cpp", "tests/stress/memory.cpp", "tests/later/test_it.py",
                 "tests/later/__pycache__/test_it.pyc", "tests/order.py"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    cure = (
        "no vendor gets these tests, and nothing says why: add them to COPIED in tools/vendor/tree.py; or, if they "
        "test nothing that a vendor changes, to OWN_TESTS there, with the reason"
    )
    assert list(tree.unassigned_tests(tmp_path)) == [
        f"tests/later: {cure}",
        f"tests/stress: tests/stress/new.cpp: {cure}",
    ]


def test_the_project_asks_for_what_ours_asks_for(files: dict[str, str]) -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    theirs = tomllib.loads(files["pyproject.toml"])
    assert theirs["build-system"] == ours["build-system"]
    for key in ("requires-python", "dynamic"):
        assert theirs["project"][key] == ours["project"][key]
    for key in ("torch", "dynamic-metadata"):
        assert theirs["tool"][key] == ours["tool"][key]
    asked, extras = (project["project"]["optional-dependencies"] for project in (theirs, ours))
    assert asked["build"] == extras["build"]
    # Only an example on a page needs matplotlib.
    assert set(asked["test"]) == {one for one in extras["kit"] + extras["test"] if not one.startswith("matplotlib")}
    assert asked["lint"] == extras["format"]
    used = {package for hook in yaml.safe_load(files[".pre-commit-config.yaml"])["repos"][0]["hooks"]
            for package in hook["additional_dependencies"]}  # fmt: skip
    assert used < set(asked["lint"])
    for key in ("line-length", "target-version"):
        assert theirs["tool"]["ruff"][key] == ours["tool"]["ruff"][key]
    assert theirs["tool"]["ruff"]["lint"]["select"] == ours["tool"]["ruff"]["lint"]["select"]
    assert theirs["project"]["entry-points"]["torch.backends"] == {"acme": "torch_acme_autoload:autoload"}
    options = ("filterwarnings", "addopts", "faulthandler_timeout", "norecursedirs")
    assert [theirs["tool"]["pytest"]["ini_options"][name] for name in options] == [
        json.loads(json.dumps(ours["tool"]["pytest"]["ini_options"][name]).replace("openreg runs", "acme runs"))
        for name in options
    ]


def test_a_repository_is_written_at_once_or_not_at_all(tmp_path: Path) -> None:
    place.write({"a": "1", "b/c": "#!/bin/sh\n"}, tmp_path / "new")
    assert (tmp_path / "new" / "a").read_text() == "1"
    assert os.access(tmp_path / "new" / "b" / "c", os.X_OK)
    with pytest.raises(Fault, match=r"new exists; name a folder that does not, or remove it"):
        place.write({"a": "2"}, tmp_path / "new")
    with pytest.raises(Fault, match=r"nowhere is no folder, and the backend is to be written into it"):
        place.write({"a": "2"}, tmp_path / "nowhere" / "new")
    with pytest.raises(IsADirectoryError):
        place.write({"a/b": "1", "a": "2"}, tmp_path / "half")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]


@pytest.mark.long
def test_some_chapters(files: dict[str, str]) -> None:
    base = tree.files(ACME, [])
    assert tree.files(ACME, ["device", "memory"]) == base
    assert {"csrc/runtime/device.cpp", "csrc/aten/fallback/fallback.cpp", "tests/aten/test_copy.py"} <= set(base)
    optimizers = tree.files(ACME, ["optimizers"])
    added = set(optimizers) - set(base)
    assert {
        "csrc/kernels/optim/fused_optimizers.cpp",
        "csrc/kernels/optim/fused_step.h",
        "tests/kernels/test_foreach.py",
    } <= added
    assert {"csrc/kernels/nn/convolution.cpp", "csrc/stable/rms_norm.cpp", "tests/kernels/test_norms.py"} & set(
        optimizers
    ) == set()
    assert set(optimizers) - {"CHAPTERS.md"} < set(files)
    assert tree.files(ACME, sorted(chapters.Choice(ROOT).chapters)) == files


@pytest.mark.long
@pytest.mark.parametrize(("wanted", "has"), [([], ""), (["optimizers", "amp"], ", `amp`, `optimizers`")])
def test_a_copy_of_some_chapters_names_what_it_has_and_lacks(wanted: list[str], has: str) -> None:
    text = " ".join(tree.files(ACME, wanted)["CHAPTERS.md"].split())
    assert f"The base, which every backend needs{has}. Left out are the chapters `" in text
    lacks = set(re.findall(r"`(\w+)`", text.partition("Left out")[2].partition(".")[0]))
    assert lacks == set(chapters.Choice(ROOT).chapters) - set(chapters.BASE) - set(wanted)
    assert "`make conformance` fails, and with it the workflow `test`, at each check that one of them would" in text
    assert "make vendor NAME=acme DEST=... CHAPTERS=" in text


def test_a_copy_of_all_chapters_or_of_a_state_has_no_list_of_them(files: dict[str, str]) -> None:
    assert "CHAPTERS.md" not in files
    assert "CHAPTERS.md" not in tree.files(ACME, state=2)


@pytest.mark.parametrize("wanted", [[], ["amp"], ["nn_contracts"], ["custom_operators"], None])
def test_cmake_names_the_folders_that_are_there(wanted: list[str] | None) -> None:
    chosen = tree.files(ACME, wanted)
    cmake = chosen["csrc/CMakeLists.txt"]
    named = re.findall(r"^ *(?:set|list)\((?:APPEND )?folders ([^)]+)\)", cmake, re.MULTILINE)
    sources = [path for path in chosen if re.match(r"csrc/(?:aten|kernels|profiler|runtime)/.*\.cpp$", path)]
    there = {path.removeprefix("csrc/").rpartition("/")[0] for path in sources}
    assert there - {"kernels/stable"} <= set(" ".join(named).split())
    assert ("acme_stable SHARED" in cmake) == ("csrc/stable/rms_norm.cpp" in chosen)


def test_maps_name_what_is_there(files: dict[str, str]) -> None:
    base = tree.files(ACME, [])
    assert "csrc/stable/README.md" in files
    assert "csrc/stable/README.md" not in base
    for tree_of in (files, base):
        sources = {path: text for path, text in tree_of.items() if path.startswith("csrc/")}
        assert [fault for fault in maps.faults(sources) if "there is no" in fault] == []
    assert "minimal/" not in base["csrc/driver/README.md"]
    assert "opencl/" not in base["csrc/driver/README.md"]


def test_every_test_of_an_operator_has_a_chapter(files: dict[str, str]) -> None:
    """A test that no chapter names belongs to the base: it must pass where no operator has a kernel."""
    tests = {name for chapter in chapters.TESTS.values() for name in chapter}
    of_operators = re.compile(r"tests/(?:aten|kernels)/(test_.*)")
    assert tests <= {*files, *(match[1] for path in files if (match := of_operators.fullmatch(path)))}
    assert "tests/aten/test_transformer.py" not in tree.files(ACME, ["nn_contracts"])  # it tests attention, too
    base = {match[1] for path in tree.files(ACME, []) if (match := of_operators.fullmatch(path))}
    named = "abs addr copy elementwise fallback host_tensors layouts matrix_product mistakes overlap random scalar"
    assert base == {f"test_{name}.py" for name in (*named.split(), "structured", "views_and_resize")}
    others = {"compile", "driver_conformance", "libraries", "native_kernels", "real_runtime", "serving"}
    assert set(chapters.TESTS) | set(chapters.BASE) | others == set(chapters.Choice(ROOT).chapters)


@pytest.mark.long
def test_an_unknown_chapter(tmp_path: Path) -> None:
    with pytest.raises(
        Fault, match=r"there is no chapter amb, moemry; those with sources are amp, attention, autograd, .*versions$"
    ):
        cli.main(["--name", "acme", "--dest", str(tmp_path / "new"), "--chapters", "amb device moemry"])
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_chapter_is_refused_where_all_are_there(tmp_path: Path) -> None:
    place.write({record.FILE: record.of(ACME, None, "0" * 40, {}).text}, tmp_path / "acme")
    with pytest.raises(Fault, match=r"^there is no chapter ampp; those with sources are amp, attention, "):
        cli.main(["--name", "acme", "--dest", str(tmp_path / "acme"), "--chapters", "ampp"])
    assert [path.name for path in (tmp_path / "acme").iterdir()] == [record.FILE]


@pytest.mark.long
def test_autocast_is_tested_where_networks_are() -> None:
    """Its tests call convolutions, which `amp` alone does not have."""
    test = "tests/aten/test_autocast.py"
    assert test not in tree.files(ACME, ["amp"])
    assert test in tree.files(ACME, ["amp", "nn_contracts"])


def test_what_a_chapter_that_is_left_out_would_cure_is_no_fault() -> None:
    checks = [
        {"name": "device/count", "outcome": "passed", "chapter": "device", "reason": ""},
        {"name": "events/time", "outcome": "not offered", "chapter": "event", "reason": "no clock"},
        {"name": "amp/dtype_of", "outcome": "failed", "chapter": "amp", "reason": "no registration"},
        {"name": "memory/free", "outcome": "crashed", "chapter": "memory", "reason": "SIGSEGV"},
    ]
    assert list(conforms.unexplained({"fault": "", "checks": checks}, {"amp", "optimizers"})) == [
        "memory/free: SIGSEGV; its cure is in memory, which is there"
    ]
    assert list(conforms.unexplained({"fault": "the backend is not there", "checks": checks[:1]}, ())) == [
        "the backend is not there"
    ]


def test_a_result_is_stale_when_a_source_needs_another(tmp_path: Path) -> None:
    def parts(text: str) -> str:
        (tmp_path / "csrc/aten").mkdir(parents=True, exist_ok=True)
        (tmp_path / "csrc/aten/one.cpp").write_text(text)
        (tmp_path / "csrc/aten/two.h").touch()
        sources = Sources(replace(load(ROOT), root=tmp_path))
        return conforms.parts(sources, sources.closure(["csrc/aten/one.cpp"]))

    before = parts("int one;\n")
    assert parts("int other;\n") == before
    assert parts('#include "aten/two.h"\n') != before


def test_a_chapter_alone_is_not_stale_when_the_base_needs_more(tmp_path: Path) -> None:
    def write(name: str, text: str = "") -> None:
        (tmp_path / "csrc/aten").mkdir(parents=True, exist_ok=True)
        (tmp_path / "csrc/aten" / name).write_text(text)

    def parts() -> tuple[str, str]:
        sources = Sources(replace(load(ROOT), root=tmp_path))
        base = sources.closure(["csrc/aten/base.h"])
        whole = sources.closure(["csrc/aten/base.h", "csrc/aten/one.cpp"])
        return conforms.parts(sources, base), conforms.parts(sources, whole, base)

    write("base.h")
    write("more.h")
    write("own.h")
    write("one.cpp", '#include "aten/base.h"\n')
    base, alone = parts()
    write("base.h", '#include "aten/more.h"\n')
    changed, kept = parts()
    assert changed != base
    assert kept == alone
    write("one.cpp", '#include "aten/base.h"\n#include "aten/own.h"\n')
    assert parts()[1] != alone


def test_a_choice_is_built_in_an_environment_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller may have an active environment, whose programs come first on PATH."""
    ours = str(Path(sys.executable).parent)
    seen: dict[str, str] = {}

    def run(command: list[str], env: dict[str, str], check: bool) -> SimpleNamespace:
        seen.update(env)
        return SimpleNamespace(returncode=1)

    monkeypatch.setattr(trial, "ROOT", tmp_path)
    monkeypatch.setattr(conforms.tree, "files", lambda names, chosen: {"Makefile": "build:\n"})
    monkeypatch.setattr(trial.tree, "commit", lambda: "")
    monkeypatch.setattr(trial, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    monkeypatch.setenv("PATH", f"{ours}{os.pathsep}/usr/bin")
    with pytest.raises(Fault, match="make chapters: base does not build"):
        conforms._tried("base", [])
    assert seen["PATH"] == "/usr/bin"
    assert "VIRTUAL_ENV" not in seen


def test_all_together_are_tried_again_when_code_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "csrc/aten/one.cpp"
    source.parent.mkdir(parents=True)
    source.write_text("int one;\n")
    monkeypatch.setattr(conforms, "ROOT", tmp_path)
    monkeypatch.setattr(conforms, "choices", lambda: {conforms.ALL: None, conforms.NONE: []})
    monkeypatch.setattr(conforms, "_parts", lambda chosen: "the same")
    tried: list[str] = []

    def try_it(name: str, chosen: list[str] | None) -> dict[str, str]:
        tried.append(name)
        return {"date": "today", "parts": "the same", "sources digest": conforms.written()}

    monkeypatch.setattr(conforms, "_tried", try_it)
    (tmp_path / conforms.RESULT).parent.mkdir(parents=True)
    for text, due in {
        "int one;\n": [conforms.ALL, conforms.NONE],
        "int one;  // of two\n": [],
        "int two;\n": [conforms.ALL],
    }.items():
        tried.clear()
        source.write_text(text)
        conforms.main([])
        assert tried == due, text


def test_every_choice_is_tried() -> None:
    assert list(conforms.choices())[:2] == ["all", "base"]
    assert set(conforms.choices()) - {"all", "base"} == set(chapters.TESTS) | {
        "compile", "driver_conformance", "libraries", "native_kernels", "real_runtime", "serving"
    }  # fmt: skip


WRITTEN = {"kept": "1\n2\n3\n4\n5\n6\n7\n", "old": "old\n", "deep/new": "1\n"}


@pytest.fixture
def vendors(tmp_path: Path) -> tuple[Path, record.Record]:
    """A written repository, and its record."""
    destination = tmp_path / "acme"
    place.write(WRITTEN, destination)
    digests = {path: record.digest(text) for path, text in WRITTEN.items()}
    return destination, record.Record("acme", "am", "acme", None, "0" * 40, digests)


def state(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.relative_to(folder).parts)
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_what_the_vendor_left_alone_is_brought_up_to_date(vendors: tuple[Path, record.Record]) -> None:
    destination, before = vendors
    wanted = {"kept": "other\n", "deep/new": "1\n", "deep/newer": "2\n"}
    planned = update.changes(destination, before, wanted, dict)
    assert str(planned) == "1 files added, 1 brought up to date, 0 merged with your changes, 1 removed"
    assert state(destination) == WRITTEN
    update.apply(destination, planned)
    assert state(destination) == wanted


def test_what_the_vendor_did_stays(vendors: tuple[Path, record.Record]) -> None:
    destination, before = vendors
    (destination / "kept").write_text("mine\n")
    (destination / "deep/new").unlink()
    (destination / "old").write_text("mine\n")
    wanted = {"kept": WRITTEN["kept"], "deep/new": "2\n"}
    planned = update.changes(destination, before, wanted, dict)
    update.apply(destination, planned)
    assert state(destination) == {"kept": "mine\n", "old": "mine\n"}


def test_a_folder_that_the_vendor_removed_stays_away(vendors: tuple[Path, record.Record]) -> None:
    """A README may tell the vendor to delete it, and the guide goes on adding to it."""
    destination, before = vendors
    (destination / "deep/new").unlink()
    (destination / "deep").rmdir()
    wanted = {**WRITTEN, "deep/newer": "1\n", "deep/deeper/newer": "1\n", "other/newer": "1\n"}
    planned = update.changes(destination, before, wanted, dict)
    assert planned.added == {"other/newer": "1\n"}
    update.apply(destination, planned)
    there = {"kept": WRITTEN["kept"], "old": WRITTEN["old"], "other/newer": "1\n"}
    assert state(destination) == there
    again = record.of(ACME, None, "1" * 40, wanted)
    update.apply(destination, update.changes(destination, again, wanted, dict))
    assert state(destination) == there


def test_what_the_vendor_changed_and_the_guide_no_longer_has_is_named(
    vendors: tuple[Path, record.Record], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a rename: the update adds the file of the new name, and both would be compiled."""
    destination, before = vendors
    (destination / record.FILE).write_text(before.text)
    (destination / "old").write_text("mine\n")
    (destination / "deep/new").write_text("mine\n")
    wanted = {"kept": WRITTEN["kept"], "renamed": WRITTEN["old"]}
    planned = update.changes(destination, before, wanted, dict)
    assert str(planned) == "1 files added, 0 brought up to date, 0 merged with your changes, 0 removed"
    assert planned.kept == ["deep/new", "old"]
    made = record.of(ACME, None, "1" * 40, wanted)
    monkeypatch.setattr(cli, "_written", lambda *_: wanted | {record.FILE: made.text})
    options = ["--name", "acme", "--dest", str(destination)]
    cli.main(options)
    assert capsys.readouterr().out == (
        f"make vendor: 1 files added, 0 brought up to date, 0 merged with your changes, 0 removed in {destination}; "
        "the guide no longer has deep/new, old, which you changed: move your changes, then delete them\n"
    )
    assert (destination / "old").read_text() == "mine\n"
    cli.main(options)
    assert capsys.readouterr().out.endswith(f"0 removed in {destination}\n")


def test_changes_of_both_sides_are_merged(vendors: tuple[Path, record.Record]) -> None:
    destination, before = vendors
    (destination / "kept").write_text("mine\n2\n3\n4\n5\n6\n7\n")
    (destination / "kept").chmod(0o755)
    wanted = WRITTEN | {"kept": "1\n2\n3\n4\n5\n6\ntheirs\n"}
    planned = update.changes(destination, before, wanted, lambda: WRITTEN)
    assert str(planned) == "0 files added, 0 brought up to date, 1 merged with your changes, 0 removed"
    update.apply(destination, planned)
    assert state(destination) == WRITTEN | {"kept": "mine\n2\n3\n4\n5\n6\ntheirs\n"}
    assert os.access(destination / "kept", os.X_OK)


def test_what_cannot_be_merged_is_named_and_nothing_is_written(vendors: tuple[Path, record.Record]) -> None:
    destination, before = vendors
    (destination / "kept").write_text("mine\n2\n3\n4\n5\n6\n7\n")
    (destination / "newer").write_text("mine\n")
    there = state(destination)
    wanted = {"kept": "theirs\n2\n3\n4\n5\n6\n7\n", "old": "new\n", "deep/new": "1\n", "newer": "theirs\n"}
    with pytest.raises(Fault) as raised:
        update.changes(destination, before, wanted, lambda: WRITTEN)
    assert str(raised.value).splitlines() == [
        f"{destination} is as it was; these files cannot be brought together:",
        "  kept: both sides have changed the same lines",
        "  newer: you have a file of this name; move it",
    ]
    with pytest.raises(Fault, match=f"kept: changed on both sides, and commit {'0' * 40} of the guide is not here"):
        update.changes(destination, before, {**WRITTEN, "kept": "theirs\n"})
    assert state(destination) == there


@pytest.mark.parametrize("known", [{"kept": "2\n"}, {"old": "old\n"}])
def test_a_copy_of_changes_that_were_not_committed_is_told_from_a_missing_commit(
    vendors: tuple[Path, record.Record], known: dict[str, str]
) -> None:
    destination, before = vendors
    (destination / "kept").write_text("mine\n")
    with pytest.raises(Fault, match=r"it is not a copy of commit 0+ of the guide, but of changes that were not"):
        update.changes(destination, before, {**WRITTEN, "kept": "theirs\n"}, lambda: known)


def test_what_cannot_be_read_or_written_is_named_and_nothing_is_written(vendors: tuple[Path, record.Record]) -> None:
    destination, before = vendors
    (destination / "kept").write_bytes(b"M\xe4rz\n")
    (destination / "newer").mkdir()
    (destination / "mine").write_text("mine\n")
    wanted = {**WRITTEN, "newer": "1\n", "mine/new": "1\n", "other": "1\n"}
    with pytest.raises(Fault) as raised:
        update.changes(destination, before, wanted, dict)
    assert str(raised.value).splitlines()[1:] == [
        "  kept: is not UTF-8; convert it, or move it",
        "  mine/new: you have a file mine; move it",
        "  newer: you have a folder of this name; move it",
    ]


def test_a_repository_that_cannot_be_written_is_named(
    vendors: tuple[Path, record.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    destination, before = vendors
    planned = update.changes(destination, before, {**WRITTEN, "newer": "1\n"}, dict)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(Fault, match=f"^{destination} cannot be written: Read-only file system$"):
        update.apply(destination, planned)


def test_an_interrupt_leaves_no_copy_without_its_first_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(names, "chosen", lambda *_: ACME)
    monkeypatch.setattr(cli, "_written", lambda *_: {"a": "1"})
    options = ["--name", "acme", "--dest", str(tmp_path / "new")]
    with monkeypatch.context() as patched:
        patched.setattr(history, "begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cli.main(options)
    assert list(tmp_path.iterdir()) == []
    cli.main(options)
    assert git(tmp_path / "new", "ls-files") == "a\n"
    assert git(tmp_path / "new", "status", "--porcelain") == ""


def test_a_chapter_that_the_guide_has_renamed_is_named_and_prevents_no_update(
    vendors: tuple[Path, record.Record], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    destination, before = vendors
    (destination / record.FILE).write_text(replace(before, chapters=["amp", "ampere", "device"]).text)
    wanted: list[list[str]] = []

    def written(_names: names.Names, chosen: list[str], _state: None) -> dict[str, str]:
        wanted.append(chosen)
        return WRITTEN | {record.FILE: "{}"}

    monkeypatch.setattr(cli, "_written", written)
    cli.main(["--name", "acme", "--dest", str(destination)])
    assert wanted == [["amp", "device"]]
    said = capsys.readouterr().out.splitlines()[0]
    assert said == "-- the guide no longer has the chapter ampere; add what took its place by CHAPTERS="


def test_git_is_read_in_any_locale_and_in_the_repository_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "-c", "user.name=Zo\u00eb", "commit", "--quiet", "--allow-empty", "--message", "theirs")
    code = "import sys, pathlib; from vendor import history; "
    code += "print(ascii(history.git(pathlib.Path(sys.argv[1]), 'log', '--format=%an').stdout))"
    variables = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT / "tools")}
    command = [sys.executable, "-X", "utf8=0", "-c", code, str(tmp_path)]
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("'Zo\\xeb\\n'\n", "")
    ours = tree.commit()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    assert tree.commit() == ours
    assert update._git("rev-parse", "HEAD").stdout.strip() == ours


def test_a_clone_that_git_does_not_read_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = tmp_path / "git"
    git.write_text('#!/bin/sh\necho "fatal: detected dubious ownership in repository" >&2\nexit 128\n')
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(Fault, match=r"^git cannot read this clone of the guide: fatal: detected dubious ownership"):
        tree.commit()


def test_a_merge_without_git_is_a_fault(
    vendors: tuple[Path, record.Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination, before = vendors
    (destination / "kept").write_text("mine\n2\n3\n4\n5\n6\n7\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tree.commit() == "unknown"
    wanted = WRITTEN | {"kept": "1\n2\n3\n4\n5\n6\ntheirs\n"}
    for earlier in (None, lambda: WRITTEN):
        with pytest.raises(Fault, match="merged by git, which is not installed"):
            update.changes(destination, before, wanted, earlier)


@pytest.mark.parametrize("is_clone", [True, False])
def test_what_pip_or_a_compiler_left_is_not_copied(is_clone: bool, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build/\n*.egg-info/\n*.o\n")
    for name in ("csrc/a.cpp", "csrc/driver/x.o", "conformance/README.md", "conformance/build/lib/a.py",
                 "conformance/accelerator_conformance.egg-info/PKG-INFO"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"\x7fELF\xff" if name.endswith(".o") else b"text\n")
    if is_clone:
        git(tmp_path, "init", "--quiet")
    assert [name for name, _ in tree._sources(tmp_path)] == [".gitignore", "conformance/README.md", "csrc/a.cpp"]


@pytest.mark.long
def test_chapters_are_added_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    destination = tmp_path / "torch_acme"
    options = ["--name", "acme", "--dest", str(destination)]
    cli.main([*options, "--chapters", "device"])
    (destination / "README.md").write_text("mine")
    cli.main([*options, "--chapters", "optimizers"])
    said = capsys.readouterr().out
    assert "brought up to date, 0 merged with your changes, 0 removed in" in said
    assert said.endswith("git diff shows them, to commit\n")
    added = {path: text for path, text in state(destination).items() if path not in ("README.md", record.FILE)}
    wanted = shape.formatted(tree.files(ACME, ["optimizers"]))
    assert added == {path: text for path, text in wanted.items() if path != "README.md"}
    assert (destination / "README.md").read_text() == "mine"
    cli.main(options)
    said = capsys.readouterr().out
    assert said.endswith(
        f"0 files added, 0 brought up to date, 0 merged with your changes, 0 removed in {destination}\n"
    )
    cli.main([*options, "--chapters", "all"])
    wanted = shape.formatted(tree.files(ACME))
    assert set(state(destination)) == {*wanted, record.FILE}
    for other, asked in {
        ("--name", "other"): "other",
        ("--name", "acme", "--prefix", "ac"): "acme with ac",
        ("--name", "acme", "--library", "acme_rt"): "acme with acme_rt",
    }.items():
        its = f"is a backend called acme, with the prefix am and the library acme; {asked} needs a folder of its own"
        with pytest.raises(Fault, match=its):
            cli.main([*other, "--dest", str(destination)])
    (destination / record.FILE).write_text("{")
    with pytest.raises(Fault, match=r"\.vendor\.json cannot be read: .*; take it back from the commit"):
        cli.main(options)


@pytest.mark.long
def test_the_state_that_was_written_comes_from_its_commit(tmp_path: Path) -> None:
    """The merge base of the three-way merge comes from this repository's own history."""
    destination = tmp_path / "torch_acme"
    commit = tree.commit()
    files = update._earlier(record.Record("acme", "am", "acme", ["device"], commit, {}))
    assert files["csrc/driver/acme.h"].startswith("// ")
    assert "csrc/kernels/nn/convolution.cpp" not in files
    place.write(files, destination)
    digests = {path: record.digest(text) for path, text in files.items()}
    before = record.Record("acme", "am", "acme", ["device"], commit, digests)
    (destination / "csrc/kernels/README.md").write_text(
        files["csrc/kernels/README.md"].replace("# What", "# Ours: what")
    )
    planned = update.changes(destination, before, tree.files(ACME, ["device", "optimizers"]))
    merged = planned.merged["csrc/kernels/README.md"]
    assert merged.startswith("# Ours: what computes")
    assert "`optim/foreach.cpp`" in merged


@pytest.mark.long
def test_what_the_guide_says_of_itself_comes_from_that_commit_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit, the releases of PyTorch and the address of the guide, after all of them have changed."""
    guide, destination = tmp_path / "guide", tmp_path / "torch_acme"
    git(tmp_path, "clone", "--quiet", "--shared", str(ROOT), str(guide))
    for module in (tree, update):
        monkeypatch.setattr(module, "ROOT", guide)
    monkeypatch.setattr(shape, "formatted", lambda texts: texts)  # which takes longer than all the rest
    files = tree.files(ACME, ["device"], root=guide)
    place.write(files, destination)
    before = record.of(ACME, ["device"], tree.commit(), files)
    project = (guide / "pyproject.toml").read_text(encoding="utf-8")
    project, count = re.subn(r"(?ms)(^\[tool\.torch\].*?^releases = \[)", r'\1"2.12.0", ', project, count=1)
    project, again = re.subn(r'(?m)^guide = ".*"$', 'guide = "https://guide.example"', project)
    assert (count, again) == (1, 1)
    (guide / "pyproject.toml").write_text(project, encoding="utf-8")
    git(guide, "commit", "--quiet", "--all", "--message=Another release")
    assert update._earlier(before) == files
    for name, ours, mine in (("NOTICE", "torch_acme was", "Ours.\n\ntorch_acme was"), ("README.md", "# ", "# Our ")):
        (destination / name).write_text(files[name].replace(ours, mine, 1))
    planned = update.changes(destination, before, tree.files(ACME, ["device"], root=guide))
    assert tree.commit() in planned.merged["NOTICE"]
    assert planned.merged["NOTICE"].startswith("Ours.\n")
    assert "PyTorch 2.12 to " in planned.merged["README.md"]
    assert planned.merged["README.md"].startswith("# Our ")
    written = tomllib.loads(planned.replaced["pyproject.toml"])["tool"]
    assert written["torch"]["releases"][0] == "2.12.0"
    assert written["accelerator_conformance"]["guide"] == "https://guide.example"


@pytest.mark.parametrize("missing", ["--name", "--dest"])
def test_a_name_and_a_folder_are_needed(missing: str, tmp_path: Path) -> None:
    given = {"--name": "acme", "--dest": str(tmp_path / "new")} | {missing: ""}
    with pytest.raises(Fault, match="make vendor NAME=acme DEST"):
        cli.main([part for pair in given.items() for part in pair])
    assert list(tmp_path.iterdir()) == []


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_environment_describes_no_backend() -> None:
    names = ("NAME", "DEST", "PREFIX", "LIBRARY", "CHAPTERS", "STATE", "GIT", "TORCH")
    wrong = dict.fromkeys(names, "of the machine")  # such as NAME on WSL, and PREFIX in conda
    *defaults, command = recipe("vendor", variables=wrong)[:5]
    assert (defaults, command) == (["--driver", "", "--host-kernels", ""], "vendor")
    assert set(recipe("vendor", variables=wrong)[6::2]) == {""}
    assert recipe("next", variables=wrong) == [*defaults, "next", ""]


def test_a_user_who_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(Fault, match=r"^~nosuch/torch_acme: there is no home folder ~nosuch$"):
        cli.main(["--name", "acme", "--dest", "~nosuch/torch_acme"])


@pytest.mark.long
def test_a_folder_of_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Fault, match=f"^{tmp_path}/nowhere is no folder"):
        cli.main(["--name", "acme", "--dest", "~/nowhere/torch_acme", "--chapters", "driver"])


def test_a_relative_folder_is_where_the_user_is(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools/dev.py"), "vendor", "--name", "acme", "--dest", "nowhere/torch_acme"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{tmp_path}/nowhere is no folder" in ran.stderr


def test_an_apostrophe_in_a_value_is_kept() -> None:
    assert "../o'brien" in recipe("vendor", "NAME=acme", "DEST=../o'brien")
    assert "a 'b' c" in recipe("build", "DRIVER=a 'b' c")
    assert "2.14'" in recipe("next", "TORCH=2.14'")


@pytest.mark.long
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    destination = tmp_path / "torch_acme"
    cli.main(["--name", "acme", "--dest", str(destination)])
    said = capsys.readouterr().out
    assert f"files of the backend acme are in {destination}; begin with README.md" in said
    notice = (destination / "NOTICE").read_text()
    assert "torch_openreg" in notice
    assert re.search(r"^Commit [0-9a-f]{40} of \d{4}-\d\d-\d\d", notice, re.MULTILINE)
    assert (destination / "LICENSE").read_text().startswith("BSD 3-Clause License")
    assert git(destination, "status", "--porcelain") == ""
    assert set(git(destination, "ls-files").splitlines()) == set(state(destination))
    assert git(destination, "log", "--format=%an: %s").splitlines() == ["Ann: torch_acme, as it was copied"]
    commit = git(destination, "rev-parse", "--short", "HEAD").strip()
    assert f"make vendor: a git repository, whose first commit {commit} is the copy\n" in said


@pytest.mark.long
def test_the_library_is_kept_when_a_repository_is_brought_up_to_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    destination = tmp_path / "torch_acme"
    options = ["--name", "acme", "--dest", str(destination), "--chapters", "device", "--git", "no"]
    cli.main([*options, "--library", "acme_rt"])
    assert "no git repository, as asked" in capsys.readouterr().out
    before = record.read(destination)
    assert before is not None
    assert before.names == TAKEN
    cli.main(options)
    assert "0 files added, 0 brought up to date, 0 merged" in capsys.readouterr().out
    # A record from before libraries had separate names.
    written = json.loads((destination / record.FILE).read_text())
    del written["library"]
    (destination / record.FILE).write_text(json.dumps(written))
    before = record.read(destination)
    assert before is not None
    assert before.names == ACME


def test_inside_another_repository_there_is_none_of_its_own_unless_asked(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    place.write({"a": "1"}, tmp_path / "one")
    line = history.begin(tmp_path / "one", "copy")
    assert line.startswith(f"no git repository of its own, because the folder lies in that of {tmp_path}; GIT=yes")
    assert not (tmp_path / "one" / ".git").exists()
    assert "whose first commit" in history.begin(tmp_path / "one", "copy", history.YES)
    assert git(tmp_path / "one", "ls-files") == "a\n"


def test_the_commit_of_a_surrounding_repository_is_not_that_of_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "theirs")
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    assert tree.commit() == git(tmp_path, "rev-parse", "HEAD").strip()
    monkeypatch.setattr(tree, "ROOT", tmp_path / "unpacked")
    tree.ROOT.mkdir()
    assert tree.commit() == "unknown"


def test_git_that_does_not_know_the_author_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if re.match(r"GIT_(AUTHOR|COMMITTER)_|EMAIL$", name)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    place.write({"a": "1"}, tmp_path / "new")
    line = history.begin(tmp_path / "new", "copy")
    assert line == (
        "a git repository with all files staged, but not committed, because git does not know you: "
        "git config --global user.name NAME, and user.email; then git commit"
    )
    assert git(tmp_path / "new", "status", "--porcelain") == "A  a\n"


def test_a_machine_without_git_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "because git is not installed" in history.begin(tmp_path, "copy")
    assert not history.is_repository(tmp_path)


def test_hooks_and_ignored_files_of_the_machine_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "commit-msg").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "commit-msg").chmod(0o755)
    (tmp_path / "ignored").write_text("*.md\n")
    with Path(os.environ["GIT_CONFIG_GLOBAL"]).open("a", encoding="utf-8") as config:
        config.write(
            f"[core]\n\thooksPath = {hooks}\n\texcludesFile = {tmp_path / 'ignored'}\n[commit]\n\tgpgSign = true\n"
        )
    # As in a hook of another repository, which sets these variables.
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "another"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    place.write({"README.md": "1"}, tmp_path / "new")
    assert "whose first commit" in history.begin(tmp_path / "new", "copy")
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert git(tmp_path / "new", "ls-files") == "README.md\n"


def test_what_git_cannot_do_is_said(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("no repository\n")
    assert re.match(
        "git init failed: .*; commit the files before you change any$", history.begin(tmp_path, "copy", "yes")
    )
