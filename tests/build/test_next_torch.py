"""How `make next` evaluates the output of its steps, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import next_torch
import pytest
from environment import Fault
from prerequisites import torch_releases

BEFORE = """\
[Allocator in c10/core/Allocator.h]
virtual void f() const
virtual void g(int) = 0

[operators]
aten::a(Tensor self) -> Tensor

[names that PyTorch looks up on a device module]
device: _utils.py
old: a.py
"""


def test_changes_are_listed_by_section() -> None:
    after = (
        BEFORE.replace("void g(int)", "void g(int, bool)").replace("_utils.py", "other.py").replace("old: a", "new: b")
    )
    after += "\n[dtypes]\ntorch.one\n"
    assert next_torch.changes(BEFORE, BEFORE) == {}
    assert next_torch.changes(BEFORE, after) == {
        "Allocator in c10/core/Allocator.h": ["-virtual void g(int) = 0", "+virtual void g(int, bool) = 0"],
        "names that PyTorch looks up on a device module": ["-old", "+new"],
        "dtypes": ["+torch.one"],
    }


def test_a_report_of_tests_is_counted() -> None:
    report = ET.fromstring(
        '<testsuites><testsuite><testcase classname="tests.aten.test_x" name="test_a"/>'
        '<testcase classname="tests.aten.test_x" name="test_b[1]"><failure message="first line&#10;2">text</failure>'
        '</testcase><testcase classname="tests.aten.test_x" name="test_c"><skipped message="no"/></testcase>'
        '<testcase classname="tests.y" name="test_d"><error message="collection"/></testcase></testsuite></testsuites>'
    )
    assert next_torch.outcome(report) == {
        "tests": 4,
        "failures": 2,
        "skipped": 1,
        "failed": {"tests/aten/test_x.py::test_b[1]": "first line", "tests/y.py::test_d": "collection"},
    }


class Pretended(next_torch.Environment):
    """An environment whose commands print what a test specifies."""

    output = ""
    passes = False

    def make(self, *words: str, **variables: str) -> tuple[bool, str]:
        return self.passes, self.output


@pytest.fixture
def environment(tmp_path: Path) -> Pretended:
    return Pretended(tmp_path / "venv", tmp_path / "log")


def test_errors_of_a_build_are_found_once(environment: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    error = "csrc/runtime/guard.cpp:47:5: error: 'void f() override' marked 'override', but does not override"
    monkeypatch.setattr(
        Pretended, "output", f"[1/2] Building\n{error}\nnote: here\n{error}\nValueError: no such operator\n"
    )
    assert next_torch.build(environment) == {"passed": False, "errors": [error, "ValueError: no such operator"]}


def test_pages_that_do_not_hold_are_listed(environment: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    output = (
        "/home/me/docs/source/accelerator/guard.md:12: WARNING: 1 + 1\nExpected:\n    3\n"
        "doctest accelerator/guard: 10 examples, 1 failures (1 s)\ndoctest accelerator/event: 5 examples, ok (1 s)\n"
        # This page shows the results of the command, and is behind them while it runs.
        "/home/me/docs/source/reference/releases.md:22: WARNING: release-table: no release differs in test by 'x'\n"
    )
    monkeypatch.setattr(Pretended, "output", output)
    assert next_torch.pages(environment) == {
        "passed": False,
        "examples": {"accelerator/event": 5, "accelerator/guard": 10},
        "faults": {"accelerator/guard": ["12: 1 + 1"]},
    }
    monkeypatch.setattr(Pretended, "output", "torch_openreg: the build failed; the messages are above\n")
    assert next_torch.pages(environment)["error"] == "torch_openreg: the build failed; the messages are above"


def test_units_that_differ_are_listed(environment: Pretended, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listed = "- add.one, forward, int64: failed, and is not listed\n- mul, out, bool: passed, and is listed\n"
    (tmp_path / "opinfo.md").write_text(f"| float32 | all 9 |\n- neither\n{listed}")
    said = "make opinfo: 98 of 100 units passed, 1 of 9 columns under 99.5% (9 s); the result is opinfo.md\n"
    monkeypatch.setattr(next_torch, "ROOT", tmp_path)
    monkeypatch.setattr(Pretended, "output", f"-- 1 of 6 modes to run\n{said}")
    monkeypatch.setattr(Pretended, "passes", True)
    assert next_torch.opinfo(environment) == {
        "passed": False,
        "units": 100,
        "units_passed": 98,
        "differ": {"add.one, forward, int64": "failed", "mul, out, bool": "passed"},
    }
    monkeypatch.setattr(Pretended, "output", "make opinfo: out: pytest ended before all units had run; see above\n")
    error = "make opinfo: out: pytest ended before all units had run; see above"
    assert next_torch.opinfo(environment) == {"passed": False, "error": error}


@pytest.mark.parametrize("output", ["torch_openreg: the build failed; the messages are above\n", ""])
def test_named_pages_that_do_not_run_keep_the_earlier_result(
    environment: Pretended, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, output: str
) -> None:
    release = torch_releases()[-1]
    monkeypatch.setattr(next_torch, "RESULTS", tmp_path)
    monkeypatch.setattr(next_torch, "ROOT", tmp_path)
    monkeypatch.setattr(next_torch, "_check_pages", lambda _named: None)
    monkeypatch.setattr(next_torch, "prepare", lambda release, folder: environment)
    monkeypatch.setattr(Pretended, "output", "doctest a/one: 10 examples, ok (1 s)\n")
    next_torch.main([release, "--steps", "doctest"])
    before = (tmp_path / f"{release}.json").read_text()
    monkeypatch.setattr(Pretended, "output", output)
    stays = f"^make next: a/one, a/two did not run, and the earlier result stays: {output.strip()}$"
    with pytest.raises(Fault, match=stays):
        next_torch.main([release, "--steps", "doctest", "--pages", "a/one,a/two"])
    assert (tmp_path / f"{release}.json").read_text() == before


def test_named_pages_replace_only_their_part(
    environment: Pretended, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(next_torch, "_check_pages", lambda _named: None)
    release = torch_releases()[-1]
    monkeypatch.setattr(next_torch, "RESULTS", tmp_path)
    monkeypatch.setattr(next_torch, "ROOT", tmp_path)
    monkeypatch.setattr(next_torch, "prepare", lambda release, folder: environment)
    fault = "/home/me/docs/source/a/{}.md:12: WARNING: {}\n"
    ended = "doctest a/{}: 10 examples, 1 failures (1 s)\n"
    one, two = fault.format("one", "1 + 1") + ended.format("one"), fault.format("two", "2") + ended.format("two")
    arguments = [release, "--steps", "doctest"]
    monkeypatch.setattr(Pretended, "output", one)
    monkeypatch.setattr(Pretended, "output", one + two)
    next_torch.main(arguments)
    monkeypatch.setattr(Pretended, "output", one.replace("1 + 1", "3") + fault.format("two", "of a page not named"))
    next_torch.main([*arguments, "--pages", "a/one"])
    record = json.loads((tmp_path / f"{release}.json").read_text())["steps"]["doctest"]
    assert record["faults"] == {"a/one": ["12: 3"], "a/two": ["12: 2"]}
    assert (record["examples"], record["passed"]) == ({"a/one": 10, "a/two": 10}, False)
    monkeypatch.setattr(Pretended, "output", "doctest a/two: 11 examples, ok (1 s)\n")
    next_torch.main([*arguments, "--pages", "a/two"])
    record = json.loads((tmp_path / f"{release}.json").read_text())["steps"]["doctest"]
    assert (record["examples"], record["faults"]) == ({"a/one": 10, "a/two": 11}, {"a/one": ["12: 3"]})


def test_a_step_that_is_run_again_replaces_its_part(
    environment: Pretended, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = torch_releases()[-1]
    monkeypatch.setattr(next_torch, "RESULTS", tmp_path)
    monkeypatch.setattr(next_torch, "ROOT", tmp_path)
    monkeypatch.setattr(next_torch, "prepare", lambda release, folder: environment)
    for passes in (False, True):
        monkeypatch.setattr(Pretended, "passes", passes)
        next_torch.main([release, "--steps", "build"])
    assert "build passed; the result is" in capsys.readouterr().out.splitlines()[-1]
    record = json.loads((tmp_path / f"{release}.json").read_text())
    assert record["torch"] == release
    assert list(record["steps"]) == ["build"]
    assert record["steps"]["build"]["passed"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["2.12.1"], r"'2\.12\.1' is no release of PyTorch 2\.\d+.*: pyproject\.toml lists .*; add a release"),
        ([""], rf"name a release: make next TORCH={torch_releases()[-1]}"),
        (["2.14"], "'2.14' is no release of PyTorch"),
        (["2.14.1+cpu"], r"the index of pip decides which build it installs: TORCH=2\.14\.1, not 2\.14\.1\+cpu$"),
        (
            [torch_releases()[-1], "--pages", "accelerator/guard,accelerator/gaurd"],
            r"^make next: no page accelerator/gaurd; is accelerator/guard meant\? There are accelerator/amp, ",
        ),
        ([torch_releases()[-1], "--steps", "built,test"], "there is no step built; there are surface, build, test"),
    ],
)
def test_what_cannot_be_tried_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(Fault, match=message):
        next_torch.main(arguments)


def test_an_environment_that_was_interrupted_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []
    interrupted = ["venv", "install"]

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        venv = tmp_path / "build" / "next" / "2.14.1" / "venv"
        commands.append("venv" if "--clear" in command else "install")
        file = "bin/python" if commands[-1] == "venv" else "lib/python3.11/site-packages/torch/version.py"
        (venv / file).parent.mkdir(parents=True, exist_ok=True)
        (venv / file).write_text("__version__ = '2.14.1+cpu'\n")
        if commands[-1] in interrupted:
            interrupted.remove(commands[-1])
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(next_torch, "ROOT", tmp_path)
    monkeypatch.setattr(next_torch, "subprocess", SimpleNamespace(run=run, STDOUT=subprocess.STDOUT, DEVNULL=-3))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            next_torch.prepare("2.14.1", None)
    for _ in range(2):
        assert next_torch.prepare("2.14.1", None).python.exists()
    assert commands == ["venv", "venv", "install", "venv", "install"]


def test_an_environment_without_the_release_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_torch, "ROOT", tmp_path)
    with pytest.raises(Fault, match=r"venv has no PyTorch, not 2\.14\.1: .*/python -m pip install torch==2\.14\.1"):
        next_torch.prepare("2.14.1", tmp_path / "venv")
