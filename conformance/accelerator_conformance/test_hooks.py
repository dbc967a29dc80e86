"""The accelerator hooks, each through a function of PyTorch that calls it."""

from __future__ import annotations

import pytest
import torch

from accelerator_conformance.checks import chapter, current_is, level, optional

pytestmark = chapter("hooks")


def test_is_available(device: str) -> None:
    """`isAvailable`: torch.accelerator finds the device."""
    assert torch.accelerator.is_available()
    assert torch.get_device_module(device).is_available()


def test_default_generator(device: str) -> None:
    """`getDefaultGenerator`: torch.random's operators find a generator of the device."""
    first = torch.rand(16, device=device).cpu()
    assert not torch.equal(first, torch.rand(16, device=device).cpu()), "the generator repeats itself"


def test_new_generator(device: str) -> None:
    """`getNewGenerator`: torch.Generator(device) makes one, on the device that it names."""
    generator = torch.Generator(device)
    assert generator.device.type == device
    assert generator.device.index in (None, 0)


def test_new_generator_of_another_device(other: torch.device) -> None:
    """`getNewGenerator`: the index is obeyed."""
    assert torch.Generator(other).device == other


def test_exchange_device(other: torch.device) -> None:
    """`exchangeDevice` and maybeExchangeDevice: nested blocks enter their device, and restore the one before."""
    torch.ones(1, device=other)  # only a device that is in use must be entered again
    with torch.accelerator.device_index(other.index):
        current_is(other.index)
        with torch.accelerator.device_index(0):
            current_is(0)
        current_is(other.index)
        with torch.accelerator.device_index(None):
            current_is(other.index)
    current_is(0)


@level("usable")
def test_device_count(device: str) -> None:
    """`deviceCount`: the hooks count the devices; PyTorch's default implementation counts none."""
    seen = torch._C._accelerator_hooks_device_count()
    assert seen == torch.accelerator.device_count(), f"the hooks count {seen} devices: is deviceCount overridden?"


@level("usable")
def test_current_device_of_the_hooks(other: torch.device) -> None:
    """`setCurrentDevice`, getCurrentDevice, exchangeDevice, maybeExchangeDevice: the same device as the guard's."""
    torch._C._accelerator_hooks_set_current_device(other.index)
    current_is(other.index)
    assert torch._C._accelerator_hooks_get_current_device() == other.index
    assert torch._C._accelerator_hooks_exchange_device(0) == other.index, "exchangeDevice gives the device before"
    current_is(0)
    assert torch._C._accelerator_hooks_maybe_exchange_device(other.index) == 0
    assert torch._C._accelerator_hooks_maybe_exchange_device(-1) == other.index, "a negative index changes nothing"
    current_is(other.index)


@level("usable")
@chapter("storage")
@pytest.mark.parametrize("size", [2, 64])
def test_resize_storage(device: str, size: int) -> None:
    """`resizePrivateUse1Bytes`: a storage grows and shrinks, and keeps its content."""
    x = torch.arange(8.0, device=device)
    storage = x.untyped_storage()
    storage.resize_(size * 4)
    assert storage.nbytes() == size * 4
    kept = min(size, 8)
    assert torch.empty(0, device=device).set_(storage, 0, (kept,)).tolist() == list(range(kept))


@level("usable")
def test_pinned_memory_is_known(device: str) -> None:
    """`getPinnedMemoryAllocator` and isPinnedPtr: pinned memory says that it is, and other memory that it is not."""
    plain = torch.arange(100.0)
    with optional():
        pinned = plain.pin_memory()
    assert pinned.is_pinned(), "memory that was just pinned says that it is not: is isPinnedPtr overridden?"
    assert not plain.is_pinned(), "ordinary memory says that it is pinned"
    assert pinned[50:].is_pinned(), "an address in the midst of pinned memory is not recognised"
    assert torch.equal(pinned, plain)
