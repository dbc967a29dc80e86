"""Times a cold build and the rebuild after one changed source, and counts what is built.

Writes benchmarks/results/build_time.md, and notes what decides over the times (tools/results.py). The builds
go to a temporary folder and do not touch the environment; run it on an idle machine.
Usage: python benchmarks/build_time.py [--repeat N]
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))

import results
from environment import ROOT

# One source of each batch, one that is compiled alone, the bindings, and the input of the generated sources.
CHANGED = (
    "csrc/driver/memory.cpp",
    "csrc/runtime/stream.cpp",
    "csrc/aten/views.cpp",
    "csrc/aten/fallback/fallback.cpp",
    "csrc/aten/autocast.cpp",
    "csrc/aten/custom/soft_cap.cpp",
    "csrc/kernels/attention/attention.cpp",
    "csrc/kernels/loops/convert.cpp",
    "csrc/kernels/loops/abs.cpp",
    "csrc/kernels/loops/add.cpp",
    "csrc/kernels/norms/batch_norm.cpp",
    "csrc/kernels/optim/foreach.cpp",
    "csrc/kernels/nn/convolution.cpp",
    "csrc/kernels/random/real.cpp",
    "csrc/kernels/random/discrete.cpp",
    "csrc/kernels/norms/group_norm.cpp",
    "csrc/kernels/nn/embedding_bag.cpp",
    "csrc/python/module.cpp",
    "csrc/kernels/library/structured.toml",
)


class Cost(NamedTuple):
    """Seconds on the clock, and seconds of all processors together, which other load disturbs less."""

    wall: float
    cpu: float


def run(*command: str) -> Cost:
    """Runs a command without ccache, which would hide what is measured."""
    environment = {**os.environ, "CCACHE_DISABLE": "1"}
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def cold_build(folder: Path) -> tuple[Cost, int]:
    """Builds a wheel with pip in an empty build folder; returns the cost and the wheel's bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    wheels = folder / "wheels"
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--quiet"]
    cost = run(*command, f"--config-settings=build-dir={folder / 'tree'}", "--wheel-dir", str(wheels), ".")
    return cost, next(wheels.glob("*.whl")).stat().st_size


def incremental_build(folder: Path, source: Path) -> Cost:
    """Builds again as if one source had been saved."""
    before = source.stat()
    os.utime(source)
    try:
        return run(sys.executable, "-m", "cmake", "--build", str(folder / "tree"))
    finally:
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))


def compiler() -> str:
    """The first line of the compiler's version."""
    command = [os.environ.get("CXX") or "c++", "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def report(repeat: int) -> str:
    """Measures, and returns the figures as a page of Markdown."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cold, size = min(cold_build(folder) for _ in range(repeat))
        rows = [
            (source, min(incremental_build(folder, ROOT / source) for _ in range(repeat)))
            for source in CHANGED
            if (ROOT / source).exists()
        ]
    files = [path for path in (ROOT / "csrc").rglob("*") if path.suffix in {".cpp", ".h"}]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    facts = [
        "# Build time",
        "",
        f"{datetime.date.today().isoformat()}, {os.cpu_count()} cores, {platform.machine()}, {compiler()}, "
        f"PyTorch {metadata.version('torch')}, best of {repeat}. Renew with `python benchmarks/build_time.py`.",
        "",
        "",
        "| what | seconds | processor seconds |",
        "| --- | --- | --- |",
        f"| cold build (`pip wheel`, no ccache) | {cold.wall:.1f} | {cold.cpu:.1f} |",
        *(f"| rebuild after a change of `{source}` | {cost.wall:.1f} | {cost.cpu:.1f} |" for source, cost in rows),
        "",
        f"{len(files)} C++ files of {lines} lines; the wheel has {size / 1024:.0f} KiB.",
        "",
    ]
    return "\n".join(facts)


def main() -> None:
    """Measures, prints and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=2, help="runs of each build; the best counts")
    text = report(parser.parse_args().repeat)
    print(text)
    (ROOT / results.BUILD_TIME.path).write_text(text, encoding="utf-8")
    results.BUILD_TIME.note(ROOT)


if __name__ == "__main__":
    main()
