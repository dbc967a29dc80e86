"""The order in which `make test` hands files to its workers."""

from __future__ import annotations

import subprocess
import sys

from environment import ROOT

from tests.order import LONGEST

FILES = ["tests/driver/test_pinned.py", "tests/weaver/test_diagram.py", "tests/build/test_surface.py"]


def collect(*options: str) -> subprocess.CompletedProcess[str]:
    always = ["-p", "tests.order", "-p", "no:cacheprovider", "--collect-only", "--quiet"]
    command = [sys.executable, "-m", "pytest", *always, *options, *FILES]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def collected(*options: str) -> list[str]:
    """The files that would run, in their order."""
    lines = collect(*options).stdout.splitlines()
    return list(dict.fromkeys(line.partition("::")[0] for line in lines if "::" in line))


def test_what_takes_longest_comes_first() -> None:
    assert collected() == FILES[::-1]


def test_each_file_is_in_one_share() -> None:
    shares = [collected("--share", f"{number}/2") for number in range(2)]
    assert sorted(file for share in shares for file in share) == sorted(FILES)
    assert all(shares)


def test_a_share_that_is_none_is_refused() -> None:
    ran = collect("--share", "2/2")
    assert ran.returncode != 0
    assert "argument --share: invalid share value: '2/2'" in ran.stderr


def test_all_that_is_said_to_take_long_is_there() -> None:
    assert [path for path in LONGEST if not (ROOT / path).exists()] == []
