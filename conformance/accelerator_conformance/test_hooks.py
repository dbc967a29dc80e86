"""The hooks of the accelerator, by what of PyTorch ends in each."""

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
    """`exchangeDevice` and maybeExchangeDevice: blocks within blocks enter their device, and go back."""
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
@chapter("storage")
@pytest.mark.parametrize("size", [2, 64])
def test_resize_storage(device: str, size: int) -> None:
    """`resizePrivateUse1Bytes`: a storage grows and shrinks, and keeps what it held."""
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
