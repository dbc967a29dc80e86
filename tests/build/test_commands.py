"""The commands of tools/dev.py: which take arguments, how they are listed, and when `make fuzz` is no success."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import commands
import fuzz
import pytest
from commands import COMMANDS
from environment import ROOT, Fault


def dev(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/dev.py", *words]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def test_a_command_that_ignores_arguments_takes_none() -> None:
    ignoring = [name for name, command in COMMANDS.items() if "_arguments" in inspect.signature(command.run).parameters]
    assert ignoring == [name for name, command in COMMANDS.items() if not command.takes_arguments]
    assert len(ignoring) == 12


@pytest.mark.parametrize("name", ["html", "torch", "stress"])
def test_arguments_that_nothing_reads_are_refused(name: str) -> None:
    COMMANDS[name].check(name, [])
    with pytest.raises(Fault, match=rf"^make {name} takes no ARGS, got nonsense --really 'a b'; run it without$"):
        COMMANDS[name].check(name, ["nonsense", "--really", "a b"])


@pytest.mark.parametrize(
    "name",
    ["pdf", "check", "fuzz", "browser", "instructions", "chapters", "states", "cross", "doctest", "proof", "mutate"],
)
def test_wrong_arguments_are_refused_before_anything_is_built(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    COMMANDS[name].check(name, [])
    with pytest.raises(SystemExit) as ended:
        COMMANDS[name].check(name, ["--nonsense"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"make {name}: error: unrecognized arguments: --nonsense\n")


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (
            "doctest",
            ["accelerator/eror"],
            "^make doctest: no page accelerator/eror; is accelerator/errors meant? There",
        ),
        ("proof", ["--page", "x", "y"], "^make proof: no page x, y; there are accelerator/amp, "),
        ("mutate", ["--page", "accelerator/hooks", "z"], "^make mutate: no page z; there are accelerator/amp, "),
    ],
)
def test_a_page_that_does_not_exist_is_named_before_anything_is_built(
    name: str, given: list[str], message: str
) -> None:
    with pytest.raises(Fault, match=message.replace("?", r"\?")):
        COMMANDS[name].check(name, given)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("proof", ["--sample", "0"], "argument --sample: at least 1 is needed, got 0"),
        ("mutate", ["--sample", "some"], "argument --sample: at least 1 is needed, got some"),
        ("mutate", ["--minutes", "-1"], "argument --minutes: 0 or more are needed, got -1"),
        ("mutate", ["--minutes", "nan"], "argument --minutes: 0 or more are needed, got nan"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(
    name: str, given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        COMMANDS[name].check(name, given)
    assert capsys.readouterr().err.endswith(f"{message}\n")


def test_a_share_that_does_not_exist_is_refused_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREG_PAGES", "3/3")
    with pytest.raises(Fault, match=r"^make doctest: OPENREG_PAGES: a share is N/M with 0 <= N < M, got '3/3'$"):
        COMMANDS["doctest"].check("doctest", [])


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [("vendor", ["--name=", "--dest="], "say how the device"), ("next", [""], "name a release")],
)
def test_what_is_missing_is_asked_for_before_anything_is_installed(name: str, given: list[str], message: str) -> None:
    with pytest.raises(Fault, match=message):
        COMMANDS[name].check(name, given)


def test_the_refusal_is_one_line() -> None:
    ran = dev("--driver", "", "torch", "nonsense", "--really")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "torch_openreg: make torch takes no ARGS, got nonsense --really; run it without\n"


def test_each_builder_has_doctrees_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[str] = []

    def refused(_builder: str, _output: Path, *options: str) -> int:
        folders.append(options[options.index("--doctree-dir") + 1])
        return 1

    monkeypatch.setattr(commands, "_sphinx", refused)
    for command in (commands.html, commands.epub):
        with pytest.raises(Fault, match="the pages have faults"):
            command([])
    assert len(set(folders)) == 2


def test_help_lists_the_commands() -> None:
    ran = dev("--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("usage: tools/dev.py ")
    for name, command in COMMANDS.items():
        assert f"\n  {name:<12}  {(command.run.__doc__ or '').splitlines()[0]}\n" in ran.stdout


def test_without_a_command_they_are_listed_too() -> None:
    ran = dev("--driver", "")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("usage: tools/dev.py ")
    assert ran.stderr.endswith("\n\ntools/dev.py: expected a COMMAND, got none; name one of those above\n")


def test_help_after_a_command_is_that_of_the_command() -> None:
    ran = dev("torch", "--help")
    assert ran.returncode == 1
    assert "make torch takes no ARGS, got --help" in ran.stderr


def test_the_debugger_of_a_test_can_be_typed_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test ARGS="-n0 --pdb"`; no other program waits for the terminal."""
    given: list[int | None] = []

    def run(_command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        given.append(options.get("stdin"))
        return subprocess.CompletedProcess([], 0, stdout="")

    monkeypatch.setattr(subprocess, "run", run)
    for command, arguments in ((commands.test, ["-n0", "--pdb"]), (commands.conformance, [])):
        with pytest.raises(SystemExit):
            command(arguments)
    assert given[0] is None
    assert given[-1] == subprocess.DEVNULL


@pytest.mark.parametrize("seconds", ["-5", "0", "nan"])
def test_fuzz_needs_time(seconds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delattr(fuzz, "_session")
    with pytest.raises(Fault, match=f"make fuzz: --seconds is how long to try, more than 0; got {seconds}$"):
        fuzz.main([f"--seconds={seconds}"])


@pytest.mark.parametrize(("died", "why"), [([], "try longer, with more --seconds"), (["a line"], "1 ended on the CPU")])
def test_no_programs_are_no_success(died: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A session whose time is over before a program ends, which no number of seconds makes sure of.
    over = SimpleNamespace(programs=0, found=[], deaths_on_the_cpu=died, run=lambda *_: None)
    monkeypatch.setattr(fuzz, "_session", lambda _options: over)
    with pytest.raises(
        Fault, match=rf"make fuzz: no program ran to its end in 0\.0 s, so nothing was compared: {why}$"
    ):
        fuzz.main(["--seconds", "0.01"])
    assert not (tmp_path / fuzz.LATEST).exists()
