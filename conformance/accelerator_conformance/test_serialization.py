"""Tensors in files: saved, loaded to the same or another device, pickled and copied."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch

from accelerator_conformance.checks import chapter, current_is, level

pytestmark = chapter("serialization")


def saved(value: Any) -> io.BytesIO:
    """A file with a saved value, positioned at its beginning."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_round_trip(device: str, dtype: torch.dtype) -> None:
    """A tensor comes back to its device with dtype, strides and values."""
    x = torch.arange(12).view(3, 4).to(dtype).to(device).t()
    back = torch.load(saved(x))
    assert (back.device, back.dtype, back.stride()) == (x.device, dtype, x.stride())
    assert torch.equal(back.cpu(), x.cpu())


@pytest.mark.parametrize("form", ["text", "device", "function", "table"])
def test_map_location(device: str, form: str) -> None:
    """A file of the device can be loaded to the CPU and vice versa, with every form of map_location."""
    for source, target in ((device, "cpu"), ("cpu", device)):
        forms: dict[str, Any] = {
            "text": target,
            "device": torch.device(target),
            "function": lambda storage, _tag, target=target: storage.to(device=target),
            "table": {"cpu": target, device: target, f"{device}:0": target},
        }
        back = torch.load(saved(torch.arange(3.0, device=source)), map_location=forms[form])
        assert back.device.type == target, f"the tensor is on {back.device}"
        assert back.tolist() == [0, 1, 2]


def test_second_device(other: torch.device) -> None:
    """A file of the second device is loaded there, and the current device does not change."""
    back = torch.load(saved(torch.arange(3.0, device=other)))
    assert back.device == other
    assert back.tolist() == [0, 1, 2]
    current_is(0)


def test_shared_memory_stays_shared(device: str) -> None:
    """Two views of one storage still share it after saving and loading."""
    x = torch.zeros(10, device=device)
    first, second = torch.load(saved([x[:5], x[3:]]))
    first[4] = 7.0
    assert second[1].item() == 7.0, "two views of one storage were loaded as two storages"


def test_checkpoint(device: str) -> None:
    """A model and its optimizer resume from a file with the same results."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    data = torch.randn(8, 4).to(device)

    def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
        optimizer.zero_grad()
        model(data).square().sum().backward()
        optimizer.step()
        return [value for parameter in model.parameters() for value in parameter.flatten().tolist()]

    step(model, optimizer)
    file = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    expected = step(model, optimizer)
    content = torch.load(file)
    fresh = torch.nn.Linear(4, 2).to(device)
    its_optimizer = torch.optim.Adam(fresh.parameters())
    fresh.load_state_dict(content["model"])
    its_optimizer.load_state_dict(content["optimizer"])
    assert step(fresh, its_optimizer) == expected


def test_a_device_that_is_not_there(device: str) -> None:
    """Loading to a device that does not exist raises an error that names it or map_location; another location works."""
    file = saved(torch.arange(3.0))
    beyond = torch.accelerator.device_count()
    with pytest.raises((RuntimeError, ValueError), match=r"map_location|device"):
        torch.load(file, map_location=f"{device}:{beyond}")
    file.seek(0)
    assert torch.load(file, map_location=device).tolist() == [0, 1, 2]


@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
def test_copies_of_objects(device: str, way: str) -> None:
    """`pickle` and copy.deepcopy give a tensor of the device with memory of its own."""
    x = torch.nn.Parameter(torch.arange(3.0, device=device))
    back = copy.deepcopy(x) if way == "deepcopy" else pickle.loads(pickle.dumps(x))
    assert isinstance(back, torch.nn.Parameter)
    assert (back.device, back.requires_grad) == (x.device, True)
    with torch.no_grad():
        back.add_(1)
    assert (x.tolist(), back.tolist()) == ([0, 1, 2], [1, 2, 3])


@level("usable")
@chapter("storage")
def test_storages(device: str) -> None:
    """A storage of the device goes to the CPU and comes back, byte by byte."""
    storage = torch.arange(4.0, device=device).untyped_storage()
    assert storage.device.type == device
    assert storage.nbytes() == 16
    host = storage.cpu()
    assert torch.tensor(host, dtype=torch.uint8).view(torch.float32).tolist() == [0, 1, 2, 3]
    assert host.to(device=device).cpu().tolist() == host.tolist()
