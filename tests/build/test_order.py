"""The order in which `make test` hands files to its workers."""

from __future__ import annotations

import subprocess
import sys

import pytest
from environment import ROOT

from tests.order import LONGEST

FILES = ["tests/driver/test_pinned.py", "tests/weaver/test_marks.py", "tests/build/test_surface.py"]


@pytest.fixture(autouse=True)
def no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that tries this file may itself be one of a sample, which an inner run would inherit."""
    monkeypatch.delenv("OPENREG_LONGEST", raising=False)


def collect(*options: str) -> subprocess.CompletedProcess[str]:
    always = ["-p", "tests.order", "-p", "no:cacheprovider", "--collect-only", "--quiet"]
    command = [sys.executable, "-m", "pytest", *always, *options, *FILES]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def collected_tests(*options: str) -> list[str]:
    """The tests that would run, in order."""
    return [line for line in collect(*options).stdout.splitlines() if "::" in line]


def collected(*options: str) -> list[str]:
    """The files that would run, in order."""
    return list(dict.fromkeys(test.partition("::")[0] for test in collected_tests(*options)))


@pytest.mark.long
def test_what_takes_longest_comes_first() -> None:
    assert collected() == FILES[::-1]


@pytest.mark.long
def test_each_file_is_in_one_share() -> None:
    shares = [collected("--share", f"{number}/2") for number in range(2)]
    assert sorted(file for share in shares for file in share) == sorted(FILES)
    assert all(shares)


@pytest.mark.long
def test_each_long_test_is_in_one_share_and_every_other_test_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = collected_tests()
    always = [test for test in everything if not test.startswith("tests/build/test_surface.py")]
    shares = [collected_tests("--longest", f"{number}/3") for number in range(3)]
    assert all(set(always) < set(share) for share in shares)
    assert sorted(test for share in shares for test in share) == sorted([*everything, *always, *always])
    assert len(always) < len(everything)
    monkeypatch.setenv("OPENREG_LONGEST", "1/3")
    assert collected_tests() == shares[1]


@pytest.mark.parametrize("option", ["--share", "--longest"])
def test_a_share_that_is_none_is_refused(option: str) -> None:
    ran = collect(option, "2/2")
    assert ran.returncode != 0
    assert f"argument {option}: invalid share value: '2/2'" in ran.stderr


def test_all_that_is_said_to_take_long_is_there() -> None:
    assert [path for path in LONGEST if not (ROOT / path).exists()] == []
