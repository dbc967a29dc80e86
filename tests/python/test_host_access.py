"""Host code must not touch device memory: PyTorch's accessors raise an error, and a raw access is explained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests import offers
from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE


def test_conversions_to_numpy_say_what_to_do() -> None:
    x = torch.ones(2, device="openreg")
    for use in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=r"can't convert openreg:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
            use()


def test_byteswap_is_refused() -> None:
    storage = torch.ones(2, device="openreg").untyped_storage()
    with pytest.raises(RuntimeError, match="byteswap works on host memory, and this storage is on openreg:0"):
        storage.byteswap(torch.float32)
    host = torch.tensor([1], dtype=torch.int16)
    host.untyped_storage().byteswap(torch.int16)
    assert host.tolist() == [256]


def test_reading_the_address_names_the_device_and_the_cure(run_process: RunProcess) -> None:
    done = run_process(
        """
        import ctypes, torch
        x = torch.ones(2, device="openreg")
        ctypes.string_at(x.data_ptr(), 4)
        """,
        status=None,
    )
    # A driver may share the host's addresses without declaring it (has_unified_memory in openreg.h).
    if done.returncode == 0 and not offers.is_simulated():
        pytest.skip("host code may use the addresses of this device")
    assert done.returncode == -11
    if offers.is_simulated():  # its handler names the device
        assert "host code accessed device memory at openreg:0" in done.stderr
        assert "cpu()" in done.stderr


def test_storage_indexing_copies() -> None:
    storage = torch.arange(4, dtype=torch.uint8).to("openreg").untyped_storage()
    assert [storage[i] for i in range(4)] == [0, 1, 2, 3]
    assert storage.cpu().tolist() == [0, 1, 2, 3]


def test_pickle_and_save(tmp_path: Path) -> None:
    x = torch.arange(6.0).view(2, 3).to(LAST_DEVICE)
    torch.save(x, tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt").device == torch.device(LAST_DEVICE)
    assert torch.equal(torch.load(tmp_path / "x.pt", map_location="cpu"), x.cpu())


@pytest.mark.needs("simulator")
def test_a_process_ends_cleanly_while_work_is_queued(run_process: RunProcess) -> None:
    for _ in range(3):
        done = run_process(
            """
            import torch
            x = torch.randn(200, 200, device="openreg", requires_grad=True)
            for _ in range(5):
                (x @ x).abs().sum().backward()
            """,
            OPENREG_LAUNCH="async",
        )
        assert (done.returncode, done.stderr) == (0, "")
