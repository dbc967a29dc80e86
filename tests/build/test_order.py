"""The order in which `make test` hands files to its workers."""

from __future__ import annotations

import subprocess
import sys

from environment import ROOT

from tests.order import LONGEST


def test_what_takes_longest_comes_first() -> None:
    files = ["tests/driver/test_pinned.py", "tests/docs/test_diagram.py", "tests/build/test_surface.py"]
    options = ["-p", "tests.order", "-p", "no:cacheprovider", "--collect-only", "--quiet"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    collected = [line.partition("::")[0] for line in ran.stdout.splitlines() if "::" in line]
    assert list(dict.fromkeys(collected)) == files[::-1]


def test_all_that_is_said_to_take_long_is_there() -> None:
    assert [path for path in LONGEST if not (ROOT / path).exists()] == []
