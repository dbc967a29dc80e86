"""CI's script: its steps, their environments, and the durations that it prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chromium import BROWSERS
from environment import ROOT

# Prints its target and the environment that it sees, and creates an environment, like the real one.
MAKE = """#!/bin/sh
echo "options:$ARGS$CXXFLAGS$PYTEST_ADDOPTS$SKBUILD_CMAKE_ARGS$OPENREG_BUILD_DRIVER$OPENREG_DEVICE_COUNT" >>seen
echo "$1: $([ -d .venv ] && echo $(ls .venv) || echo nothing) VIRTUAL_ENV=$VIRTUAL_ENV PYTHONPATH=$PYTHONPATH"
mkdir -p .venv
touch .venv/$1
[ "$1" != "$BROKEN" ] || exit 2
"""


# The other programs that the script calls.
PROGRAMS = ("bash", "cat", "dirname", "ls", "mkdir", "rm", "sh", "touch")


def run_ci(
    folder: Path, *more: str, commits: int = 9, shallow: str = "false", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs the script with stand-ins for make and git, and with hardly any programs beyond those that it needs."""
    scripts = {f"bin/{name}": "#!/bin/sh\n" for name in more}
    git = f"#!/bin/sh\n[ $1 = rev-list ] && echo {commits} || echo {shallow}\n"
    scripts |= {"bin/make": MAKE, "bin/git": git}
    for name, script in scripts.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(script)
        file.chmod(0o755)
    (folder / ".ci").mkdir()
    (folder / ".ci" / "run").write_text((ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    for program in PROGRAMS:
        (folder / "bin" / program).symlink_to(shutil.which(program) or program)
    (folder / "bin" / "python3").symlink_to(sys.executable)
    environment = {**os.environ, "PATH": str(folder / "bin"), **variables}
    command = ["bash", str(folder / ".ci" / "run")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_pages_come_first_and_tests_in_an_environment_of_their_own(tmp_path: Path) -> None:
    ran = run_ci(tmp_path, "chromium", "valgrind", VIRTUAL_ENV="/somewhere", PYTHONPATH="/elsewhere")
    assert ran.returncode == 0, ran.stderr
    seen = re.findall(r"^(\w+): (.*) VIRTUAL_ENV=(.*) PYTHONPATH=(.*)$", ran.stdout, re.MULTILINE)
    assert {(active, path) for _, _, active, path in seen} == {("", "")}
    assert [(step, packages) for step, packages, _, _ in seen if packages == "nothing"] == [
        ("html", "nothing"),
        ("test", "nothing"),
    ]
    steps = ["html", "check", "doctest", "browser", "instructions", "fuzz", "mutate", "test", "test"]
    assert [step for step, *_ in seen] == steps


def test_options_of_the_caller_reach_no_step(tmp_path: Path) -> None:
    names = ("ARGS", "CXXFLAGS", "PYTEST_ADDOPTS", "SKBUILD_CMAKE_ARGS", "OPENREG_BUILD_DRIVER", "OPENREG_DEVICE_COUNT")
    given: dict[str, Any] = dict.fromkeys(names, "theirs")
    ran = run_ci(tmp_path, **given)
    assert ran.returncode == 0, ran.stderr
    assert set((tmp_path / "seen").read_text().splitlines()) == {"options:"}


@pytest.mark.parametrize("browser", BROWSERS)
def test_each_browser_that_the_command_takes_is_used(tmp_path: Path, browser: str) -> None:
    ran = run_ci(tmp_path, browser)
    assert ran.returncode == 0, ran.stderr
    assert len(re.findall(r"^browser: ", ran.stdout, re.MULTILINE)) == 1
    assert "make browser is left out" not in ran.stdout


def test_a_clone_without_its_history_is_named(tmp_path: Path) -> None:
    ran = run_ci(tmp_path, "chromium", "valgrind", shallow="true", commits=1)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.startswith(".ci/run: warning: this clone is shallow, so every run checks the same parts")


@pytest.mark.parametrize(("depth", "shallow"), [("1", "true"), ("9", "false")])
def test_git_tells_a_clone_without_its_history(tmp_path: Path, depth: str, shallow: str) -> None:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet", "origin")
    author = ["-c", "user.name=Ann", "-c", "user.email=ann@acme.example"]
    for number in range(2):
        git("-C", "origin", *author, "commit", "--quiet", "--allow-empty", "--message", f"{number}")
    git("clone", "--quiet", "--depth", depth, f"file://{tmp_path}/origin", "clone")
    asked = re.search(r"git (rev-parse \S+)\)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert asked is not None
    assert git("-C", "clone", *asked[1].split()) == shallow


@pytest.mark.parametrize(
    ("commits", "step"), [(8, "proof"), (9, "mutate"), (12, "proof"), (13, "states"), (14, "chapters")]
)
def test_what_takes_long_is_tried_by_turns(tmp_path: Path, commits: int, step: str) -> None:
    ran = run_ci(tmp_path, "clang++", commits=commits)
    assert ran.returncode == 0, ran.stderr
    done = re.findall(r"^(proof|mutate|states|chapters): ", ran.stdout, re.MULTILINE)
    assert done == [step]


def test_the_tests_on_opencl_have_their_turn(tmp_path: Path) -> None:
    ran = run_ci(tmp_path, commits=11)
    assert ran.returncode == 0, ran.stderr
    tests = len(re.findall(r"^test: ", ran.stdout, re.MULTILINE))
    assert tests == 2 + ("-- the tests on OpenCL are left out: they need a platform" not in ran.stdout)


def test_without_clang_the_proof_says_what_it_needs(tmp_path: Path) -> None:
    ran = run_ci(tmp_path, commits=8)
    assert ran.returncode == 0, ran.stderr
    assert "proof: " not in ran.stdout
    assert "-- make proof is left out: it needs clang (apt-get install clang-19" in ran.stdout


def test_without_a_browser_its_step_says_what_it_needs(tmp_path: Path) -> None:
    ran = run_ci(tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "browser: " not in ran.stdout
    assert "-- make browser is left out: it needs Chromium (apt-get install chromium)" in ran.stdout


def test_without_valgrind_its_step_says_what_it_needs(tmp_path: Path) -> None:
    ran = run_ci(tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "instructions: " not in ran.stdout
    assert "-- make instructions is left out: it needs valgrind (apt-get install valgrind)" in ran.stdout


def test_the_last_step_tells_nothing_after_it_and_the_seconds_are_kept(tmp_path: Path) -> None:
    ran = run_ci(tmp_path)
    assert ran.stdout.splitlines()[-1].startswith("test: ")
    table = ran.stdout.rpartition("-- steps so far, in seconds\n")[2].splitlines()[:-1]
    kept = (tmp_path / "build" / "loop" / "steps.tsv").read_text().splitlines()
    assert table == kept[:-1]
    steps = ["html", "check", "doctest", "fuzz", "mutate"]
    assert [line.partition("\t")[2] for line in kept] == [
        *(f"make {step}" for step in steps),
        "OPENREG_LAUNCH=async make test",
        "make test",
    ]


def test_a_step_that_fails_is_the_last(tmp_path: Path) -> None:
    ran = run_ci(tmp_path, BROKEN="doctest")
    assert ran.returncode == 2
    assert ran.stdout.splitlines()[-1].startswith("doctest: ")
