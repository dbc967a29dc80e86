"""Measures the cost of profiling: per launch when nothing is profiled, and per kernel in a profile.

Run it with `make bench`, or alone: `python benchmarks/profiler.py`. It writes benchmarks/results/profiler.md.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ["KINETO_LOG_LEVEL"] = "99"

import torch
from _turns import low, microseconds, write  # type: ignore[import-not-found]  # beside this script
from torch.profiler import ProfilerActivity, profile

from torch_openreg import _C

CPU, DEVICE = ProfilerActivity.CPU, ProfilerActivity.PrivateUse1
Call = Callable[[], object]
CALLS, TURNS = 5000, 15
ROOT = Path(__file__).resolve().parents[1]


def profiled(call: Call, activities: Sequence[ProfilerActivity]) -> tuple[float, float]:
    """Microseconds of one call under a profile, and its share of ending the profile."""
    recorded = profile(activities=activities)
    recorded.start()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    torch.accelerator.synchronize()
    end = time.perf_counter()
    recorded.stop()
    stopped = time.perf_counter()
    return (end - start) / CALLS * 1e6, (stopped - end) / CALLS * 1e6


def calls_cost() -> float:
    """Nanoseconds of a DriverCall when nothing is profiled."""
    folders = (Path(str(_C.__file__)).parent / "lib", Path(torch.__file__).parent / "lib")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "driver_call_cost")
        source = Path(__file__).with_name("_driver_call_cost.cpp")
        link = [f"-{flag}{of}" for of in folders for flag in ("L", "Wl,-rpath,", "Wl,-rpath-link,")]
        link += ["-Wl,--no-as-needed", "-ltorch_openreg", "-ltorch_cpu", "-lc10"]
        compiler = [*shlex.split(os.environ.get("CXX") or "c++"), "-O2", "-std=c++20", f"-I{ROOT / 'csrc'}"]
        subprocess.run([*compiler, str(source), "-o", str(program), *link], check=True)
        ran = subprocess.run([str(program)], check=True, capture_output=True, text=True)
    return float(ran.stdout)


def main() -> None:
    """Measures, prints and writes the tables."""
    torch.set_num_threads(1)
    host = torch.rand(16)
    device = host.to("openreg")
    calls = {"CPU": lambda: host + host, "device": lambda: device + device}
    kinds: dict[str, tuple[ProfilerActivity, ...]] = {
        "the host": (CPU,),
        "the host and the device": (CPU, DEVICE),
        "the device": (DEVICE,),
    }
    plain = dict(zip(calls, microseconds(tuple(calls.values())), strict=True))
    taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(TURNS):
        for kind, activities in kinds.items():
            for name, call in calls.items():
                if name == "CPU" and DEVICE in activities:
                    continue
                taken.setdefault((kind, name), []).append(profiled(call, activities))
    lines = ["| `x + x` of 16 | CPU, us | device, us | ratio | more for each kernel, us | at the end for each, us |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    lines.append(
        f"| not profiled | {plain['CPU']:.2f} | {plain['device']:.2f} | {plain['device'] / plain['CPU']:.2f} | | |"
    )
    on_cpu = low([turn for turn, _ in taken["the host", "CPU"]])
    for kind, activities in kinds.items():
        turn, end = (low(times) for times in zip(*taken[kind, "device"], strict=True))
        # A profile of the device alone has no counterpart in PyTorch on the CPU.
        compared = f"{on_cpu:.2f} | {turn:.2f} | {turn / on_cpu:.2f}" if CPU in activities else f" | {turn:.2f} | "
        lines.append(f"| profile of {kind} | {compared} | {turn - plain['device']:.2f} | {end:.2f} |")
    nothing = calls_cost()
    share = nothing / 1000 / plain["device"]
    lines.append("")
    lines.append(
        f"While nobody profiles, what stands in front of a launch takes {nothing:.2f} ns: {share:.2%} of `x + x` of 16."
    )
    table = "\n".join(lines)
    print(table)
    print(f"benchmarks/profiler.py: table in {write(__file__, table)}")


if __name__ == "__main__":
    main()
