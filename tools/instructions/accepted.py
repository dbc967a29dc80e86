"""The accepted counts: what they were counted with, and how new counts differ from them."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from driver import installed
from prerequisites import compiler_command, installed_torch

from instructions.callgrind import Profiles
from instructions.parts import calls

FILE = Path("benchmarks", "results", "instructions.json")
ACCEPT = "make instructions ARGS=--accept"
TOLERANCE = 0.03
HALF = 0.5
INSTRUCTIONS = "instructions"
Counts = dict[str, dict[str, dict[str, float]]]  # by the name of the path, then the device, then the unit


@dataclass(frozen=True)
class Accepted:
    """The counts, and the versions of all that determines them beside the sources of this repository."""

    conditions: dict[str, str]
    counts: Counts
    day: str = ""

    def write(self, file: Path) -> None:
        """Writes the file that is committed."""
        text = json.dumps({**asdict(self), "day": str(date.today())}, indent=1)
        file.write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def read(file: Path) -> Accepted:
        """Reads it."""
        return Accepted(**json.loads(file.read_text(encoding="utf-8")))


def counts(profiles: Profiles) -> Counts:
    """The instructions of one call of each path, and what else is counted of it: locks, launches, allocations."""
    return {
        name: {
            device: {INSTRUCTIONS: round(one.total), **{unit: round(count, 2) for unit, count in calls(one).items()}}
            for device, one in both.items()
        }
        for name, both in profiles.items()
    }


def _compiler() -> str:
    """The name and version that a compiler gives itself: gcc 12.2.0, or Debian Clang 19.1.7."""
    command = [*compiler_command(), "-x", "c++", "-E", "-P", "-"]
    asked = subprocess.run(command, input="__VERSION__", capture_output=True, text=True, check=True).stdout
    version = asked.strip().strip('"').strip()
    return f"gcc {version}" if version[:1].isdigit() else version


def _valgrind() -> str:
    said = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout
    return said.strip().removeprefix("valgrind-")


def _processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    vectors = " with AVX2" if " avx2 " in cpuinfo.read_text(encoding="utf-8") else ""
    return f"{platform.machine()}{vectors}"


def conditions() -> dict[str, str]:
    """What the counts depend on, beside the sources. Requires: valgrind is installed."""
    return {
        "PyTorch": str(installed_torch()),
        "compiler": _compiler(),
        "C library": " ".join(platform.libc_ver()),
        "valgrind": _valgrind(),
        "processor": _processor(),
        "build": str(installed()),
    }


def incomparable(accepted: dict[str, str]) -> str | None:
    """Why counts of this machine cannot be compared with the accepted ones; None if they can."""
    if shutil.which("valgrind") is None:
        return "it needs valgrind (apt-get install valgrind)"
    here = conditions()
    for name, value in accepted.items():
        if here.get(name) != value:
            return f"the counts were accepted with another {name}: {value}, and here is {here.get(name)}"
    return None


@dataclass(frozen=True)
class Change:
    """A figure that differs from the accepted one by more than the tolerance."""

    name: str
    device: str
    unit: str
    accepted: float
    counted: float

    @property
    def grown(self) -> bool:
        """Whether the path needs more than before."""
        return self.counted > self.accepted

    def __str__(self) -> str:
        difference = f"{abs(self.counted / self.accepted - 1):.1%} " if self.accepted else ""
        direction = "more" if self.grown else "fewer"
        return (
            f"{self.name} on the {self.device}: {self.counted:g} {self.unit}, {difference}{direction} than the "
            f"accepted {self.accepted:g}"
        )


def changes(accepted: Counts, counted: Counts) -> Iterator[Change]:
    """Yields the figures that have changed. Requires: the same paths and units in both (missing).

    What happens a few times in a call, such as a lock, may not happen once more. Less than half a call is no change: a
    loop may contain a rare one.
    """
    for name, devices in counted.items():
        for device, figures in devices.items():
            for unit, count in figures.items():
                before = accepted[name][device][unit]
                if abs(count - before) > max(TOLERANCE * before, HALF):
                    yield Change(name, device, unit, before, count)


def missing(accepted: Counts, counted: Counts) -> list[str]:
    """The paths and units that only one of them has."""
    first, second = (
        {(unit, name, device) for name in some for device in some[name] for unit in some[name][device]}
        for some in (accepted, counted)
    )
    return [f"{unit} of {name} on the {device}" for unit, name, device in sorted(first ^ second)]
