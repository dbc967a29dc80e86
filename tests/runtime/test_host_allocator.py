from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset


def test_pinned_memory_is_known_as_such() -> None:
    x = torch.arange(1000.0)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned[10:20].is_pinned()
    assert pinned.device.type == "cpu"
    assert torch.equal(pinned, x)
    assert torch.empty(3, pin_memory=True).is_pinned()


def test_an_empty_tensor_can_be_pinned() -> None:
    assert torch.empty(0).pin_memory().numel() == 0


def test_copies_from_and_to_pinned_memory_do_not_wait() -> None:
    x = torch.arange(100_000.0).pin_memory()
    y = x.to("openreg", non_blocking=True)
    back = torch.empty_like(x, pin_memory=True)
    back.copy_(y.abs(), non_blocking=True)
    del y
    torch.accelerator.synchronize()
    assert torch.equal(back, torch.arange(100_000.0))


def test_pinned_memory_outlives_its_tensor_until_the_copy_is_done() -> None:
    results = []
    for n in range(20):
        results.append(torch.full((50_000,), float(n)).pin_memory().to("openreg", non_blocking=True))
    assert [r[-1].item() for r in results] == [float(n) for n in range(20)]


def test_data_loader_pins() -> None:
    loader = DataLoader(TensorDataset(torch.arange(12.0)), batch_size=4, pin_memory=True)
    batches = [batch for (batch,) in loader]
    assert all(batch.is_pinned() for batch in batches)
    assert torch.cat([b.to("openreg", non_blocking=True) for b in batches]).tolist() == list(map(float, range(12)))


def test_data_loader_with_workers_after_the_device_was_used() -> None:
    x = torch.ones(3, device="openreg")
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=2, num_workers=2, multiprocessing_context="fork")
    assert torch.cat([b for (b,) in loader]).tolist() == list(map(float, range(8)))
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_device_tensors_cannot_be_pinned() -> None:
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="openreg").pin_memory()
    with pytest.raises(RuntimeError, match="only CPU tensors can be pinned"):
        torch.empty(2, device="openreg", pin_memory=True)


def test_cached_pinned_memory_can_be_emptied() -> None:
    torch.accelerator.empty_host_cache()
