"""Measures the backend on an OpenCL device: both kits, two models next to the CPU, and the cost of a call.

    make build DRIVER=csrc/driver/opencl HOST_KERNELS=OFF
    .venv/bin/pip install '.[kit]'                         what the kit of the backend imports
    .venv/bin/python benchmarks/real_runtime.py            writes benchmarks/results/real_runtime.md
    .venv/bin/python benchmarks/real_runtime.py --quick    without the kit of the backend, which takes minutes

--output names another file, for another device. The file has rows for builds with and without host
kernels; those of the other build are kept if the device is the same.
With a driver other than csrc/driver/opencl, nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median

import torch

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "real_runtime.md"
sys.path.insert(0, str(ROOT))
sys.path.append(str(ROOT / "tools"))

from driver import installed  # noqa: E402  # found by the line above

from tests.models import networks  # noqa: E402  # found by the line above
from tests.models.training import Subject, Training, largest_difference, pair  # noqa: E402  # found by the line above

MODELS = {
    "perceptron, 3 layers": Subject(networks.perceptron, networks.vectors),
    "transformer, 2 layers": Subject(networks.Causal, networks.sentences),
}


def driver_kit() -> str:
    """Builds the driver's kit, and runs it on the installed library."""
    import torch_openreg._C

    library = Path(torch_openreg._C.__file__).parent / "lib" / "libopenreg.so"
    with tempfile.TemporaryDirectory() as folder:
        for command in (["cmake", "-S", "conformance/driver", "-B", folder], ["cmake", "--build", folder, "-j"]):
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        file = Path(folder) / "results.json"
        subprocess.run([Path(folder) / "driver_conformance", library, "--json", file], check=False, capture_output=True)
        checks = json.loads(file.read_text())["checks"]
    return summary([check["outcome"] for check in checks], "not offered")


def backend_kit() -> str:
    """Runs the backend's kit."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-m", "accelerator_conformance", "--device", "openreg", "--quiet", "--report", folder],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT / "conformance")},
            check=False,
            capture_output=True,
            text=True,
        )
        if not (Path(folder) / "report.json").is_file():
            raise RuntimeError(f"the kit of the backend left no report:\n{ran.stdout}{ran.stderr}")
        checks = json.loads((Path(folder) / "report.json").read_text())["checks"]
    return summary([check["outcome"] for check in checks], "skipped")


def summary(outcomes: list[str], neither: str) -> str:
    """The numbers of checks that passed, did not apply, and failed."""
    passed, aside = outcomes.count("passed"), outcomes.count(neither)
    return f"{passed} of {len(outcomes)} passed, {aside} {neither}, {len(outcomes) - passed - aside} failed"


def models() -> Iterator[tuple[str, str]]:
    """Trains each model on the CPU and on the device from the same initial state."""
    for name, subject in MODELS.items():
        on_cpu, on_device = pair(subject)
        torch.openreg.reset_fallback_stats()
        on_device.losses()
        fallbacks = sum(torch.openreg.fallback_stats().values())
        on_cpu.losses()
        difference, _ = largest_difference(on_device.model, on_cpu.model)
        yield f"{name}: largest relative difference of a parameter after 8 steps", f"{difference:.1e}"
        yield f"{name}: operators that fell back in 8 steps", str(fallbacks)
        here, there = in_turns(partial(one_step, on_device), partial(one_step, on_cpu))
        yield f"{name}: time of a step, CPU PyTorch = 1", f"{here / there:.1f}"


def one_step(training: Training) -> None:
    """A training step, including the wait for its end."""
    training.step().item()


def in_turns(*calls: Callable[[], object], rounds: int = 15) -> list[float]:
    """The median time of each call. They take turns, so that other load affects all of them."""
    times: list[list[float]] = [[] for _ in calls]
    for number in range(rounds + 1):
        for call, of_call in zip(calls, times, strict=True):
            begin = time.perf_counter()
            call()
            if number > 0:  # the first round is a warm-up
                of_call.append(time.perf_counter() - begin)
    return [median(of_call) for of_call in times]


def costs() -> Iterator[tuple[str, str]]:
    """The costs of calls that compute nothing."""
    stream = torch.Stream("openreg")
    event = torch.Event("openreg")
    host = torch.zeros(1 << 22, dtype=torch.uint8).pin_memory()
    device = torch.empty(1 << 22, dtype=torch.uint8, device="openreg")
    small, one = device[:4], torch.zeros(4, dtype=torch.uint8)

    def both_ways() -> None:
        device.copy_(host, non_blocking=True)
        host.copy_(device, non_blocking=True)
        torch.accelerator.synchronize()

    def event_and_wait() -> None:
        event.record(stream)
        event.synchronize()

    yield "record an event and wait for it", micro(event_and_wait)
    yield "copy 4 bytes to the device and back", micro(lambda: small.copy_(one).cpu())
    yield "copy 4 MiB of pinned memory to the device and back", micro(both_ways)


def micro(call: Callable[[], object]) -> str:
    """The median time of a call, as text."""
    return f"{in_turns(call, rounds=101)[0] * 1e6:.0f} µs"


def main() -> int:
    """Measures, and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out the kit of the backend")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE", help=f"instead of {RESULTS.name}")
    arguments = parser.parse_args()
    output: Path = arguments.output
    built = installed()
    if built is None or Path(built.folder).name != "opencl":
        print(f"real_runtime: the installed backend has {built}, which is no runtime of its own; nothing is measured")
        return 0
    properties = torch.openreg.get_device_properties(0)
    first = (
        f"Measured on {torch.accelerator.device_count()} x {properties.name} ({properties.driver}), "
        f"{platform.machine()}, PyTorch {torch.__version__}, {date.today()}."
    )
    switch = built.host_kernels
    found = [("kit of the driver", driver_kit())]
    if not arguments.quick:
        begin = time.perf_counter()
        found.append(("kit of the backend, level usable", backend_kit()))
        found.append(("seconds for the kit of the backend", f"{time.perf_counter() - begin:.0f}"))
    found += [*models(), *costs()]
    rows = [f"| {switch} | {name} | {value} |" for name, value in found]
    before = output.read_text(encoding="utf-8").splitlines() if output.is_file() else [""]
    other = "ON" if switch == "OFF" else "OFF"
    kept = [line for line in before if line.startswith(f"| {other} |")] if before[0] == first else []
    table = ["| host kernels | figure | value |", "| --- | --- | ---: |"]
    both = [*rows, *kept] if switch == "OFF" else [*kept, *rows]
    output.write_text("\n".join([first, "", *table, *both, ""]), encoding="utf-8")
    print(output.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
