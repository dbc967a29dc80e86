"""make vendor STATE=n: the files of each state, and the messages about it."""

from __future__ import annotations

import os
import re
import sys
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import pytest
from environment import ROOT, Fault
from vendor import cli, names, record, state_trials, tree, trial
from vendor.states import States

ACME = names.Names("acme", "am")
STATES = States(ROOT)
NUMBERS = [state.number for state in STATES.all]
EARLY = [state.number for state in STATES.all if not state.kernels]
_BOUND = r'm(?:\.def\(|, )"(\w+)"'


@pytest.fixture(scope="module")
def written() -> dict[int, dict[str, str]]:
    """The files of each state."""
    return {number: tree.files(ACME, state=number) for number in NUMBERS}


@pytest.mark.long
def test_each_state_has_the_files_of_the_one_before(written: dict[int, dict[str, str]]) -> None:
    for before, after in pairwise(NUMBERS):
        assert not set(written[before]) - set(written[after]), after
        assert len(written[before]) < len(written[after])


def test_the_last_state_is_the_whole_backend(written: dict[int, dict[str, str]]) -> None:
    whole = tree.files(ACME)
    last = written[NUMBERS[-1]]
    assert {path for path in whole if last[path] != whole[path]} == {"README.md"}  # it says that it is the last


@pytest.mark.parametrize("number", NUMBERS)
def test_what_is_included_is_there(number: int, written: dict[int, dict[str, str]]) -> None:
    files = written[number]
    for path, text in files.items():
        if path.startswith("csrc/") and path.endswith((".cpp", ".h")):
            for header in re.findall(r'^ *#include "([^"]+)"', text, re.MULTILINE):
                places = (f"csrc/{header}", f"csrc/driver/{header}", os.path.normpath(Path(path).parent / header))
                assert any(place in files for place in places), f"{path} includes {header}"


@pytest.mark.parametrize("number", NUMBERS)
def test_what_is_imported_is_there(number: int, written: dict[int, dict[str, str]]) -> None:
    files = written[number]
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in files}
    modules |= {"torch_acme._C", "torch_acme._build_info"}
    bindings = (text for path, text in files.items() if path.startswith("csrc/python/"))
    given = {name for text in bindings for name in re.findall(_BOUND, text)}
    for path, text in files.items():
        if path.startswith("torch_acme") and path.endswith(".py"):
            for module in re.findall(r"^ *(?:from|import) (torch_acme[\w.]*)", text, re.MULTILINE):
                assert module in modules, f"{path} imports {module}"
            called = set(re.findall(r"(?<!torch\.)\b_C\.(_\w+)\(", text))
            assert called <= given, path


@pytest.mark.parametrize("number", EARLY)
def test_the_stub_names_what_is_bound(number: int, written: dict[int, dict[str, str]]) -> None:
    files = written[number]
    bindings = [text for path, text in files.items() if path.startswith("csrc/python/")]
    bound = {name for text in bindings for name in re.findall(_BOUND, text)}
    stub = files["torch_acme/_C.pyi"]
    assert bound == set(re.findall(r"^(?:def|class) (_\w+)", stub, re.MULTILINE))
    imported = re.findall(r"^from torch\S* import (\w+)$", stub, re.MULTILINE)
    assert [name for name in imported if not re.search(rf": {name}\b", stub)] == [], "imported for nothing"


@pytest.mark.parametrize("number", EARLY)
def test_a_name_that_is_exported_is_imported(number: int, written: dict[int, dict[str, str]]) -> None:
    text = written[number]["torch_acme/acme/__init__.py"]
    imports, _, exported = text.partition("__all__ = [")
    names_there = re.findall(r'"(\w+)"', exported.partition("]")[0])
    assert names_there
    assert [name for name in names_there if not re.search(rf"\b{name}\b", imports)] == []


def test_a_state_without_kernels_is_built_without_them(written: dict[int, dict[str, str]]) -> None:
    for number in NUMBERS:
        (switch,) = re.findall(r"^option\(HOST_KERNELS .* (ON|OFF)\)", written[number]["CMakeLists.txt"], re.MULTILINE)
        has_kernels = any(path.startswith("csrc/kernels/") for path in written[number])
        assert (switch == "ON") == has_kernels == STATES[number].kernels


def test_the_readme_says_where_it_stands(written: dict[int, dict[str, str]]) -> None:
    assert "## State 2 of 8: memory and a guard" in written[2]["README.md"]
    assert "make vendor NAME=acme DEST=... STATE=3" in written[2]["README.md"]
    assert "STATE=" not in written[NUMBERS[-1]]["README.md"]
    assert "## State" not in tree.files(ACME)["README.md"]


def test_a_region_that_is_gone_is_named() -> None:
    states = States(ROOT)
    states._assembled["csrc/runtime/hooks.cpp"] = {"hooks-of-another-name": "csrc/runtime/generator.h"}
    with pytest.raises(Fault, match=r"csrc/runtime/hooks\.cpp has no region hooks-of-another-name"):
        states.early(1).cut("csrc/runtime/hooks.cpp", "int nothing;\n", lambda path: False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "0"}, r"STATE=0: there is no such state; there are 1 \(a name\), 2 "),
        ({"state": "-1"}, r"STATE=-1 is no number; the states are 1 to 8"),
        ({"state": "2", "chapters": "amp"}, r"leave out CHAPTERS, or STATE"),
    ],
)
def test_what_is_refused(options: dict[str, str], message: str, tmp_path: Path) -> None:
    given = [word for name, value in options.items() for word in (f"--{name}={value}",)]
    with pytest.raises(Fault, match=message):
        cli.main(["--name=acme", f"--dest={tmp_path / 'acme'}", "--git=no", *given])
    assert not (tmp_path / "acme").exists()


@pytest.mark.long
def test_the_next_state_is_merged_into_what_was_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def vendor(*more: str) -> None:
        cli.main(["--name=acme", f"--dest={tmp_path / 'acme'}", "--git=no", *more])

    vendor("--state=1")
    assert "files of the backend acme, at state 1, are in" in capsys.readouterr().out
    hooks = tmp_path / "acme" / "csrc" / "runtime" / "hooks.cpp"
    hooks.write_text(hooks.read_text().replace("// Called once per process:", "// Mine. Called once:"))
    vendor("--state=4")
    assert " 1 merged with your changes, 0 removed" in capsys.readouterr().out
    assert "// Mine. Called once:" in hooks.read_text()
    assert "getDefaultGenerator" in hooks.read_text()
    assert (made := record.read(tmp_path / "acme")) is not None
    assert made.state == 4
    vendor()
    assert "0 files added, 0 brought up to date" in capsys.readouterr().out
    with pytest.raises(Fault, match=r"is at state 4, and STATE=3 has less; write it to a folder of its own"):
        vendor("--state=3")
    with pytest.raises(Fault, match=r"is at state 4; a later STATE adds to it, and CHAPTERS does not"):
        vendor("--chapters=amp")


@pytest.mark.parametrize(("chapters", "named"), [(None, "all chapters"), (["amp"], "chapters")])
def test_chapters_are_not_at_a_state(chapters: list[str] | None, named: str, tmp_path: Path) -> None:
    """They may have as much as the last state, or more than an early one."""
    acme = tmp_path / "acme"
    acme.mkdir()
    (acme / record.FILE).write_text(record.of(ACME, chapters, "0" * 40, {}).text)
    why = f"acme was written with {named}, and is at none of the states: leave out STATE to update it, or write STATE="
    for state in (1, NUMBERS[-1]):
        with pytest.raises(Fault, match=f"{why}{state} to a folder of its own$"):
            cli.main(["--name=acme", f"--dest={acme}", f"--state={state}"])
    assert [path.name for path in acme.iterdir()] == [record.FILE]


@pytest.mark.long
def test_a_program_is_answered_by_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "ROOT", tmp_path)
    tried = trial.Trial("make states", "state 1", "state", optimized=False)
    tried.folder.mkdir(parents=True)
    (tried.folder / ".venv").symlink_to(sys.prefix)
    assert tried.run("assert torch.ones(2).sum() == 2") == "works"
    assert (
        tried.run("torch.ones(2, 3) @ torch.ones(2)")
        == "RuntimeError: size mismatch, got input (2), mat (2x3), vec (2)"
    )
    assert tried.run("raise ValueError('one sentence. And another\\nline')") == "ValueError: one sentence"
    with pytest.raises(Fault, match="state 1: a program ended with status 3"):
        tried.run("import os; os._exit(3)")


def test_a_cleared_trial_has_nothing_but_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "ROOT", tmp_path)
    tried = trial.Trial("make states", "state 1", "state", optimized=False)
    tried.write({"one": "1", "folder/two": "2"}, None, 1)
    (tried.folder / ".venv").mkdir()
    (tried.folder / ".venv" / "kept").touch()
    tried.clear()
    tried.write({"three": "3"}, None, 1)
    left = {str(path.relative_to(tried.folder)) for path in tried.folder.rglob("*") if path.is_file()}
    assert left == {".venv/kept", "three", record.FILE}


def test_what_is_lost_from_one_state_to_the_next_is_a_fault() -> None:
    known = state_trials.read()
    assert list(state_trials.faults(known, STATES)) == []
    lost = deepcopy(known)
    lost["3"]["programs"]["allocate memory"] = "RuntimeError: gone"
    lost["8"]["kit"]["module"]["passed"] -= 1
    assert list(state_trials.faults(lost, STATES)) == [
        "docs/proof/states.json: 'allocate memory' works less at state 3 than before it",
        "docs/proof/states.json: 'module' works less at state 8 than before it",
        "docs/proof/states.json: 'module' does not work at the last state",
    ]


def test_a_result_is_stale_when_a_state_has_other_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_trials, "_parts", lambda state, states: f"of {state.number}")
    lines = list(state_trials.stale())
    assert len(lines) == len(NUMBERS)
    assert lines[0] == (
        "docs/proof/states.json: state 1: it has other sources than when it was tried; run `make states`"
    )
