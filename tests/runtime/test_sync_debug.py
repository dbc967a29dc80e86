from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

READS = "one element is read, as item"
TO_CPU = "a copy to the CPU without non_blocking=True, or one that the host converts"
TO_DEVICE = "a copy to the device without non_blocking=True"
NOT_PINNED = "into memory that is not pinned"


@pytest.fixture(autouse=True)
def default() -> Iterator[None]:
    yield
    torch.openreg.set_sync_debug_mode("default")


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([0.0, 1.0, 2.0]).to("openreg")


WAITING: dict[str, tuple[Callable[[torch.Tensor], object], str]] = {
    "item": (lambda x: x[1].item(), READS),
    "if": (lambda x: bool(x[1] > 0), READS),
    "nonzero": (lambda x: x.nonzero(), READS),
    "masked_select": (lambda x: x[x > 0], READS),
    "cpu": (lambda x: x.cpu(), TO_CPU),
    "tolist": (lambda x: x.tolist(), TO_CPU),
    "to": (lambda x: torch.ones(3).to(x.device), TO_DEVICE),
    "pinned": (lambda x: torch.ones(3).pin_memory().to(x.device), TO_DEVICE),
    "copy_": (lambda x: torch.empty(3).copy_(x, non_blocking=True), NOT_PINNED),
    "converted": (lambda x: torch.empty(3, dtype=torch.float64).copy_(x, non_blocking=True), TO_CPU),
}
# An operator that falls back waits in a copy of the fallback, which the message names.
OF_KERNELS = {"if", "nonzero", "masked_select"}
NEEDS_KERNELS = pytest.mark.needs("host kernels")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=NEEDS_KERNELS if name in OF_KERNELS else ()) for name in WAITING]
)
def test_a_call_that_waits_warns_or_raises(name: str, x: torch.Tensor) -> None:
    call, text = WAITING[name]
    call(x)
    torch.openreg.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match=f"openreg: the host waits for the device: .*{text}") as caught:
        call(x)
    assert any(warning.filename == __file__ for warning in caught)
    torch.openreg.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=f'{text}.*set_sync_debug_mode\\("error"\\) forbids it'):
        call(x)


def test_an_error_comes_before_anything_is_copied(x: torch.Tensor) -> None:
    host = torch.full((3,), 7.0)
    torch.openreg.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=TO_CPU):
        host.copy_(x)
    assert host.tolist() == [7.0, 7.0, 7.0]


@NEEDS_KERNELS
def test_what_does_not_wait_or_says_so_by_its_name_is_allowed(x: torch.Tensor) -> None:
    pinned, event = torch.ones(3).pin_memory(), torch.Event("openreg")
    torch.openreg.set_sync_debug_mode("error")
    y = (x + x).abs() @ x
    z = pinned.to("openreg", non_blocking=True)
    z.copy_(torch.ones(3, dtype=torch.float64), non_blocking=True)  # the driver has read what the host converted
    z[::2].copy_(torch.ones(3).pin_memory()[::2], non_blocking=True)
    back = torch.empty(3).pin_memory().copy_(z, non_blocking=True)
    event.record()
    event.synchronize()
    torch.accelerator.current_stream().synchronize()
    torch.accelerator.synchronize()
    assert back.tolist() == [1.0, 1.0, 1.0]
    torch.openreg.set_sync_debug_mode("default")
    assert y.item() == 10.0


def test_the_mode_is_one_of_three_by_name_or_number() -> None:
    assert torch.openreg.get_sync_debug_mode() == 0
    for number, name in enumerate(("default", "warn", "error")):
        torch.openreg.set_sync_debug_mode(name)
        assert torch.openreg.get_sync_debug_mode() == number
        torch.openreg.set_sync_debug_mode(number)
        assert torch.openreg.get_sync_debug_mode() == number
    for wrong in ("on", 3, -1, 1.0, [1], torch.tensor([1, 2])):
        with pytest.raises(ValueError, match=re.escape(f"'default', 'warn' or 'error', or 0, 1 or 2, got {wrong!r}")):
            torch.openreg.set_sync_debug_mode(wrong)


def test_the_mode_holds_for_all_threads(x: torch.Tensor) -> None:
    torch.openreg.set_sync_debug_mode("error")
    raised: list[str] = []

    def read() -> None:
        try:
            x.cpu()
        except RuntimeError as error:
            raised.append(str(error))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert [TO_CPU in text for text in raised] == [True]
