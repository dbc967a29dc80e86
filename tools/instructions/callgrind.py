"""Runs benchmarks/_instructions.cpp under Callgrind, and reads what it has counted.

The same program executes the same instructions again only if nothing else differs: the environment is empty but for the
variables below, PyTorch uses one thread and one set of vector instructions. Valgrind itself shows the program the same
processor on every machine that has AVX2. The counts are those of all threads: the backward pass of a device has one of
its own, and a queued kernel does not run before the loop ends.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from environment import ROOT, Fault
from extension import build_folder
from prerequisites import compiler_command

SOURCE = Path("benchmarks", "_instructions.cpp")
DEVICE, CPU = "device", "CPU"
STEP = "training step"
_ENVIRONMENT = {
    "ATEN_CPU_CAPABILITY": "avx2",  # Valgrind has no AVX-512
    "LD_BIND_NOW": "1",  # otherwise the first call of each function looks it up
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENREG_DEVICE_COUNT": "1",
}
_OPTIONS = ("--instr-atstart=no", "--compress-strings=no", "--compress-pos=no")


@dataclass
class Profile:
    """By function, ``library:function``: for one call of a path, on average."""

    own: dict[str, float] = field(default_factory=dict)  # instructions of its own code: exclusive
    calls: dict[str, float] = field(default_factory=dict)  # how often it is called
    inclusive: dict[str, float] = field(default_factory=dict)  # its instructions, with those of all that it calls

    @property
    def total(self) -> float:
        """The instructions of one call of the path."""
        return sum(self.own.values())


Profiles = dict[str, dict[str, Profile]]  # by the name of the path, then DEVICE or CPU
Counters = tuple[Counter[str], Counter[str], Counter[str]]  # in the order of Profile


def read(lines: Iterable[str]) -> Counters:
    """Reads a file of Callgrind. The line after ``calls=`` has the instructions of these calls."""
    own: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    inclusive: Counter[str] = Counter()
    library = function = target_library = target = ""
    of_calls = False
    for line in lines:
        key, _, value = line.rstrip("\n").partition("=")
        match key:
            case "ob":
                library = Path(value).name
            case "fn":
                function = f"{library}:{value}"
            case "cob":
                target_library = Path(value).name
            case "cfn":
                target = f"{target_library or library}:{value}"
                target_library = ""
            case "calls":
                calls[target] += int(value.split()[0])
                of_calls = True
            case _ if re.match(r"[+-]?\d+ \d+$", key):
                (inclusive if of_calls else own)[target if of_calls else function] += int(key.split()[1])
                of_calls = False
    return own, calls, inclusive


def difference(shorter: Counter[str], longer: Counter[str], times: int) -> dict[str, float]:
    """What one call adds to a loop."""
    counts = {name: (longer[name] - shorter[name]) / times for name in sorted({*shorter, *longer})}
    return {name: count for name, count in counts.items() if count}


def _read_loop(folder: Path, number: int) -> Counters:
    file = folder / f"counts.{number}"
    if not file.is_file():
        raise Fault(f"make instructions: Callgrind has written no counts of loop {number}")
    with file.open(encoding="utf-8", errors="replace") as lines:
        return read(lines)


def _profiles(folder: Path, printed: Iterable[str]) -> Iterator[tuple[str, str, Profile]]:
    """Reads the loops that the program has printed, in their order: warm-up, shorter, longer."""
    for index, line in enumerate(printed):
        name, device, shorter, longer = line.split("\t")
        times = int(longer) - int(shorter)
        first, second = (_read_loop(folder, 3 * index + loop) for loop in (2, 3))
        yield name, device, Profile(*(difference(*both, times) for both in zip(first, second, strict=True)))


def compile_program(program: Path) -> None:
    """Compiles the program. Requires: the extension is installed. Throws: ``Fault``."""
    torch = Path(str(metadata.distribution("torch").locate_file("torch")))
    # Those of the build have the names of all functions; an installation is stripped of them.
    built = build_folder() / "csrc"
    include = torch / "include"
    headers = [f"-I{ROOT / 'csrc'}", "-isystem", str(include), "-isystem", str(include / "torch/csrc/api/include")]
    folders = (built / "driver", built, torch / "lib")
    link = [f"-{flag}{folder}" for folder in folders for flag in ("L", "Wl,-rpath,", "Wl,-rpath-link,")]
    link += ["-Wl,--no-as-needed", "-lopenreg", "-ltorch_openreg", "-ltorch_cpu", "-lc10"]
    compiler = [*compiler_command(), "-std=c++20", "-O2", "-DAT_PER_OPERATOR_HEADERS"]
    command = [*compiler, *headers, str(ROOT / SOURCE), "-o", str(program), *link]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise Fault(f"make instructions: {SOURCE} does not compile:\n{ran.stderr.strip()}")


def count(program: Path, names: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> Profiles:
    """Counts the instructions of the named paths, or of all; ``variables`` are added to the environment.

    Requires: valgrind is installed. Throws: ``Fault``.
    """
    with tempfile.TemporaryDirectory() as folder:
        # A relative name, so that the length of a path changes nothing.
        Path(folder, "program").symlink_to(program.resolve())
        ran = subprocess.run(
            [
                str(shutil.which("valgrind")),
                "--tool=callgrind",
                *_OPTIONS,
                "--callgrind-out-file=counts",
                "./program",
                *names,
            ],
            cwd=folder,
            env={**_ENVIRONMENT, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            raise Fault(f"make instructions: {SOURCE} fails under valgrind:\n{ran.stderr.strip()}")
        counted: Profiles = {}
        for path, device, profile in _profiles(Path(folder), ran.stdout.splitlines()):
            counted.setdefault(path, {})[device] = profile
        return counted
