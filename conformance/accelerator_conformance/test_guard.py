"""The device guard: PyTorch enters it around nearly everything it does, with an index that must be obeyed."""

from __future__ import annotations

import threading

import pytest
import torch

from accelerator_conformance.checks import chapter, current_is, level, not_offered

pytestmark = chapter("guard")


def test_factories_obey_the_index(other: torch.device) -> None:
    """A tensor is created on the named device, and the current device does not change."""
    for make in (torch.ones, torch.empty, torch.rand):
        x = make(4, device=other)
        assert x.device == other, f"{make.__name__}(device='{other}') is on {x.device}"
    current_is(0)


def test_factories_without_an_index_follow_the_current_device(device: str, other: torch.device) -> None:
    """`device="acme"` without an index means the current device."""
    with torch.accelerator.device_index(other.index):
        assert torch.ones(2, device=device).device == other
    assert torch.ones(2, device=device).device.index == 0


def test_operators_run_where_their_tensors_are(other: torch.device) -> None:
    """An operator computes on the device of its tensors, and the current device does not change."""
    x = torch.arange(6.0, device=other)
    result = (x.view(2, 3) @ x.view(3, 2)).relu() + 1
    assert result.device == other
    assert result.tolist() == [[11, 14], [29, 41]]
    current_is(0)


def test_copies_between_devices(device: str, other: torch.device) -> None:
    """A copy from one device to the other arrives, both ways, and the current device does not change."""
    x = torch.arange(1000.0, device=f"{device}:0")
    there = x.to(other)
    back = there.mul(2).to(x.device)
    assert there.device == other
    assert torch.equal(there.cpu(), torch.arange(1000.0))
    assert torch.equal(back.cpu(), torch.arange(1000.0) * 2)
    current_is(0)


def test_devices_are_not_mixed(device: str, other: torch.device) -> None:
    """An operator rejects tensors of two devices."""
    with pytest.raises(RuntimeError, match="device"):
        torch.ones(2, device=f"{device}:0") + torch.ones(2, device=other)


def test_device_is_left_after_an_error(other: torch.device) -> None:
    """An operator that throws leaves the current device as it was."""
    x = torch.ones(2, 3, device=other)
    with pytest.raises(RuntimeError):
        x @ x
    current_is(0)


def test_each_thread_has_its_own_device(other: torch.device) -> None:
    """The current device is per-thread state."""
    chosen, looked = threading.Event(), threading.Event()
    seen: list[int] = []

    def choose() -> None:
        torch.accelerator.set_device_index(other.index)
        chosen.set()
        looked.wait(30)
        seen.append(torch.accelerator.current_device_index())

    thread = threading.Thread(target=choose)
    thread.start()
    assert chosen.wait(30)
    mine = torch.accelerator.current_device_index()
    looked.set()
    thread.join()
    assert seen == [other.index], f"a thread that has set device {other.index} is on device {seen}"
    assert mine == 0, "a thread that sets its device sets that of others"


def test_backward_runs_on_the_devices_of_the_forward_pass(device: str, other: torch.device) -> None:
    """Autograd's threads enter the guard: a graph over two devices has its gradients where its tensors are."""
    x = torch.arange(4.0, device=f"{device}:0", requires_grad=True)
    y = torch.arange(4.0, device=other, requires_grad=True)
    (x.to(other) * y).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.device, y.grad.device) == (x.device, other)
    assert x.grad.tolist() == y.grad.tolist() == [0, 1, 2, 3]


@level("usable")
def test_capability_has_the_dtypes(device: str) -> None:
    """getDeviceCapability: float32 is among the dtypes that the device says it supports."""
    if not hasattr(torch.accelerator, "get_device_capability"):
        not_offered(f"PyTorch {torch.__version__} does not ask")
    assert torch.float32 in torch.accelerator.get_device_capability(device)["supported_dtypes"]
