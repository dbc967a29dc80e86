"""Examples that compare PyTorch's own lists with those written here: policies, the device module, the guard."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
from weaver.sources import headers

ROOT = Path(__file__).resolve().parents[2]
HEADER = Path(torch.__file__).parent / "include" / "c10" / "core" / "impl" / "DeviceGuardImplInterface.h"
PROBE = ROOT / "tests" / "runtime" / "guard_probe.cpp"


def test_policies_read_from_the_registration() -> None:
    command = [sys.executable, "-W", "error", "-W", "ignore:Failed to initialize NumPy", "examples/amp_policies.py"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    counts = dict(line.split(": ") for line in printed.splitlines() if not line.startswith(" "))
    assert sorted(map(int, counts.values())) == [1, 2, 11, 11, 33, 59]


def test_the_contract_notices_a_row_that_is_missing_or_wrong(tmp_path: Path) -> None:
    page = (ROOT / "docs/source/accelerator/frontend.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| `set_device` |"))
    wrong = row.replace("distributed/device_mesh.py", "cuda/__init__.py").replace("| provided", "| absent")
    for changed, faults in (
        (page.replace(row + "\n", ""), ["set_device is not in the table; looked up in distributed/device_mesh.py"]),
        (
            page.replace(row, wrong),
            ["set_device is not looked up in torch/cuda/__init__.py", "set_device is absent in"],
        ),
    ):
        (tmp_path / "page.md").write_text(changed, encoding="utf-8")
        command = [sys.executable, "examples/frontend_contract.py", str(tmp_path / "page.md")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert all(fault in done.stdout for fault in faults), done.stdout


def test_the_probe_of_the_guard_calls_every_member() -> None:
    declared = headers.virtual_methods(HEADER.read_text(encoding="utf-8"), "DeviceGuardImplInterface")
    probed = PROBE.read_text(encoding="utf-8")
    assert len({method.name for method in declared}) == 24
    assert [method.name for method in declared if f'{{"{method.name}",' not in probed] == []
