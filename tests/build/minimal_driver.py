"""Checks of the backend on the minimal driver: a training run, and tests that do not depend on the driver."""

from __future__ import annotations

import json
from pathlib import Path

from tests.build.venvs import ROOT, ForeignVenv

TRAINING = """
import copy, torch
from torch import nn
torch.manual_seed(0)
start = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
x, y = torch.randn(64, 8), torch.randint(3, (64,))
def losses(device):
    model = copy.deepcopy(start).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        yield loss.item()
on_cpu, on_device = list(losses("cpu")), list(losses("openreg:1"))
print("as on the CPU:", on_cpu == on_device)
print("learned:", on_device[-1] < on_device[0])
"""

ASKED = (
    "tests/runtime/test_device.py",
    "tests/runtime/test_event.py",
    "tests/runtime/test_serialization.py",
    "tests/aten/test_autograd.py",
    "tests/aten/test_copy.py",
    "tests/aten/test_fallback.py",
    "tests/aten/test_host_tensors.py",
    "tests/aten/test_mistakes.py",
    "tests/aten/test_scalar.py",
)
# The checks of the backend's kit at the level "usable" that the minimal driver fails.
NOT_USABLE = {
    "memory/pinned_memory_is_copied_behind_the_hosts_back",
    "streams/kernels_do_not_wait",
    "streams/streams_do_not_wait_for_each_other",
    "events/event_behind_a_kernel_is_pending",
    "events/event_can_be_recorded_again",
    "events/waiting_leaves_python_to_other_threads",
}


def failed_checks(made: ForeignVenv, folder: Path) -> set[str]:
    """Runs the backend's kit; returns the checks that fail."""
    kit = [str(made.prefix / "bin" / "python"), "-m", "accelerator_conformance", "--device", "openreg", "--quiet"]
    ran = made.run(*kit, "--report", str(folder), cwd=folder, PYTHONPATH=str(ROOT / "conformance"))
    report = json.loads((folder / "report.json").read_text())
    assert report["fault"] == "", ran.stdout + ran.stderr
    assert len(report["checks"]) > 2000
    return {check["name"] for check in report["checks"] if check["outcome"] not in ("passed", "not offered")}


def failed_tests(made: ForeignVenv, folder: Path) -> set[str]:
    """Runs the tests from a folder with links to them, but without sources; returns those that fail."""
    for linked in ("examples", "tests", "tools"):
        (folder / linked).symlink_to(ROOT / linked)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\npythonpath = . tools\n")
    options = [
        "-q",
        "-rfE",
        "--tb=no",
        "-W",
        "error",
        "-W",
        "ignore:ComplexHalf support:UserWarning",
        "-W",
        "ignore:openreg runs",
    ]
    ran = made.run(str(made.prefix / "bin" / "python"), "-m", "pytest", *options, *ASKED, cwd=folder)
    lines = ran.stdout.splitlines()
    assert "passed" in lines[-1], ran.stdout + ran.stderr
    return {line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR "))}
