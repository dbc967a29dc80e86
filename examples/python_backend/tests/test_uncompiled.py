"""The base without C++ raises for what it cannot do, where PyTorch would end the process or do nothing."""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Callable

import pytest
import torch

pytestmark = pytest.mark.skipif(os.environ["TORCH_REMOTE_BASE"] == "compiled", reason="this is about what C++ is for")


def loaded() -> None:
    """Loads a file onto the device."""
    file = io.BytesIO()
    torch.save(torch.ones(2, device="remote"), file)
    file.seek(0)
    torch.load(file)


def recorded() -> None:
    """Waits for an event."""
    event = torch.Event("remote")
    event.record()
    event.synchronize()


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "storage": (lambda: torch.UntypedStorage(8, device="remote"), "without C\\+\\+ there is no allocator"),
    "deepcopy": (lambda: copy.deepcopy(torch.ones(2, device="remote")), "without C\\+\\+ there is no allocator"),
    "load": (loaded, "without C\\+\\+ there is no allocator"),
    "generator": (lambda: torch.Generator("remote"), "getNewGenerator"),
    "pinned": (lambda: torch.ones(2).pin_memory(), "getPinnedMemoryAllocator"),
    "resize": (lambda: torch.ones(2, device="remote").untyped_storage().resize_(64), "resizePrivateUse1Bytes"),
    "synchronize": (torch.accelerator.synchronize, "synchronizing all streams"),
    "event": (recorded, "synchronizing events"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_says_so(name: str) -> None:
    """The call raises and does not crash."""
    call, said = REFUSED[name]
    with pytest.raises((NotImplementedError, RuntimeError), match=said):
        call()
