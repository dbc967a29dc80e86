"""What is asked of the backend on the minimal driver: a training, and tests that were written for the other driver."""

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
    "tests/aten/test_scalar.py",
)
# What the minimal driver does not do, and the tests that ask for it.
NOT_ON_IT = {
    "work behind the caller's back": [
        "tests/runtime/test_device.py::test_synchronize_waits_for_the_device_that_is_named",
        "tests/runtime/test_event.py::test_an_event_has_passed_when_the_work_before_it_is_done",
        "tests/runtime/test_event.py::test_an_event_holds_up_a_stream_of_another_device",
        "tests/runtime/test_event.py::test_an_event_can_be_recorded_again",
        "tests/runtime/test_event.py::test_waiting_lets_other_python_threads_run[event]",
        "tests/runtime/test_event.py::test_waiting_lets_other_python_threads_run[stream]",
        "tests/runtime/test_event.py::test_waiting_lets_other_python_threads_run[accelerator]",
        "tests/runtime/test_event.py::test_waiting_lets_other_python_threads_run[module]",
        "tests/runtime/test_event.py::test_an_event_that_has_not_passed_has_no_time",
        "tests/runtime/test_event.py::test_a_destroyed_event_holds_up_who_waits_for_it",
        "tests/runtime/test_event.py::test_a_copy_between_devices_is_ordered_on_both_sides",
    ],
    "OPENREG_LAUNCH=async": ["tests/aten/test_autograd.py::test_training_in_each_launch_mode[async]"],
    "a kernel of its own, where the fallback is forbidden": [
        "tests/runtime/test_serialization.py::test_a_marked_tensor_may_be_copied_and_used_by_kernels",
    ],
}


# The same, of what the backend's kit asks at the level "usable".
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
    """Runs the tests from a folder that has links to them and no sources; returns those that fail."""
    for linked in ("examples", "tests"):
        (folder / linked).symlink_to(ROOT / linked)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\npythonpath = .\n")
    options = ["-q", "-rfE", "--tb=no", "-W", "error", "-W", "ignore:ComplexHalf support:UserWarning"]
    ran = made.run(str(made.prefix / "bin" / "python"), "-m", "pytest", *options, *ASKED, cwd=folder)
    lines = ran.stdout.splitlines()
    assert "passed" in lines[-1], ran.stdout + ran.stderr
    return {line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR "))}
