"""Examples that need another process: files that are loaded elsewhere, workers, a storage class."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import RunProcess


def load_elsewhere(file: Path, *options: str, **environment: str) -> str:
    command = [sys.executable, "examples/serialization_load.py", str(file), *options]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("legacy", [False, True])
def test_elsewhere(tmp_path: Path, legacy: bool) -> None:
    file = tmp_path / "x.pt"
    torch.save({"x": torch.ones(2, device="openreg:1")}, file, _use_new_zipfile_serialization=not legacy)
    to_cpu = ("--map-location", "cpu")
    on_cpu = "{'x': ([1.0, 1.0], 'cpu')}\n"
    for environment in ({"OPENREG_DEVICE_COUNT": "1"}, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}):
        assert load_elsewhere(file, *to_cpu, **environment) == on_cpu
    assert load_elsewhere(file, OPENREG_DEVICE_COUNT="1") == (
        "Attempting to deserialize object on OPENREG device 1 but torch.openreg.device_count() is 1. Please use "
        "torch.load with map_location to map your storages to an existing device.\n"
    )
    assert load_elsewhere(file, OPENREG_DEVICE_COUNT="none").startswith(
        "Attempting to deserialize object on a OPENREG device but torch.openreg.is_available() is False."
    )
    assert load_elsewhere(file, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == (
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with openreg:1)\n"
    )
    assert load_elsewhere(file, "--rename-only", TORCH_DEVICE_BACKEND_AUTOLOAD="0").startswith(
        "The OPENREG device module is not registered."
    )


@pytest.mark.parametrize(("context", "device"), [("fork", "cpu"), ("spawn", "openreg")])
def test_workers_of_a_loader_feed_a_busy_device(context: str, device: str, run_process: RunProcess) -> None:
    done = run_process(
        f"""
        import sys
        sys.path.insert(0, "examples")
        import torch
        from autoload_workers import Squares
        from torch.utils.data import DataLoader
        torch.openreg._sleep(300_000_000)
        loader = DataLoader(Squares("{device}"), 2, num_workers=1, multiprocessing_context="{context}", pin_memory=True)
        print([batch.to("openreg", non_blocking=True).flatten().tolist() for batch in loader])
        """
    )
    assert done.stdout == "[[0.0, 1.0], [4.0, 9.0]]\n", done.stderr


def test_the_storage_class_example() -> None:
    done = subprocess.run([sys.executable, "examples/storage_class.py"], capture_output=True, text=True, check=True)
    assert '1 of torch.UntypedStorage(8, device="openreg"), 1 alive' in done.stdout
    assert '0 of torch.empty(4, device="openreg"), 0 alive' in done.stdout
    assert done.stdout.endswith("at the end: 0 alive\n")
