"""The programs of tests/stress: threads, streams and devices at once, and a host that runs out of memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prerequisites import compiler_command

from tests import offers

# The programs use launch modes, injected allocation failures, and the simulator's report of what is left.
pytestmark = pytest.mark.needs("host kernels", "faults", "simulator")
SOURCES = Path(__file__).parents[2] / "csrc"
SCRIPT = Path(__file__).parents[1] / "stress" / "tensors.py"  # with fewer steps here than by default
MEMORY = SCRIPT.with_name("memory.cpp")


@pytest.mark.parametrize("options", [[], ["--faults"]], ids=["without-faults", "allocations-fail"])
def test_values_stay_right_and_no_byte_is_left(options: list[str]) -> None:
    command = [sys.executable, str(SCRIPT), "--steps", "20000", *options]
    environment = {**os.environ, "OPENREG_DEVICE_COUNT": "2"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "left: nothing" in ran.stdout


@pytest.mark.long
@pytest.mark.needs("simulator")
def test_no_allocation_that_fails_loses_memory_or_ends_the_process(tmp_path: Path) -> None:
    program = tmp_path / "stress_memory"
    sources = [*(SOURCES / "runtime").glob("block_pool*.cpp"), SOURCES / "runtime" / "driver_call.cpp"]
    library = Path(offers.library()._name).resolve()
    command = [*compiler_command(), "-std=c++20", "-O1", "-pthread", str(MEMORY)]
    command += [*map(str, sources), f"-I{SOURCES}", f"-I{SOURCES / 'driver'}", str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}", "-o", str(program)], check=True)
    for mode in ("auto", "async"):
        environment = {**os.environ, "OPENREG_LAUNCH": mode}
        ran = subprocess.run([program], env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
        assert "nothing lost" in ran.stdout
