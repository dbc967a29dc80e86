"""How processes end: each way of ends.py, with its exit status and nothing unexpected on stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict

import pytest

from tests.runtime import ends

# The processes end amid queued work, host kernels and faults.
pytestmark = pytest.mark.needs("queue", "host kernels", "faults", "simulator")
MODES = ["auto", "async"]
RUNS = 2  # of each way in each mode
ALONE = "in-the-python-backend"  # a process has one backend
All = dict[tuple[str, str], list[ends.Seen]]


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest) -> All:
    """The outcomes of the processes of each way and mode for which there is a test in this run."""
    found: All = defaultdict(list)
    items = (item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path)
    asked = [(str(item.callspec.params["way"]), str(item.callspec.params["mode"])) for item in items]
    together: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for way, mode in asked:
        together[mode, way == ALONE].append(way)
    if any(way == ALONE for way, _ in asked):
        subprocess.run([sys.executable, "glue.py"], cwd=ends.PYTHON_BACKEND, capture_output=True, check=True)
    environment = {**os.environ, "OPENREG_DEVICE_COUNT": "2"}
    for (mode, _), ways in together.items():
        command = [sys.executable, ends.__file__, *ways, "--runs", str(RUNS), "--modes", mode]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        for way, mode, status, stdout, stderr in map(json.loads, ran.stdout.splitlines()):
            found[way, mode].append(ends.Seen(status, stdout, tuple(stderr)))
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ends.WAYS)
def test_a_process_ends_as_it_should(seen: All, way: str, mode: str) -> None:
    assert seen[way, mode] == [ends.expected(way)] * RUNS
