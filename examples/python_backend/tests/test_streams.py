"""Streams and events: the host continues, and only events order streams."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.compiled
LONG = 300_000_000  # nanoseconds


def test_the_host_goes_on() -> None:
    """A busy stream says so, and the host waits for it where it needs a value."""
    torch.remote._sleep(LONG)
    x = torch.ones(2, device="remote") + 1
    stream = torch.accelerator.current_stream()
    assert not stream.query()
    assert x.tolist() == [2, 2]
    torch.accelerator.synchronize()
    assert stream.query()


def test_events_pass_in_order() -> None:
    """An event passes when the work before it is done, and not before."""
    start, end = torch.Event("remote", enable_timing=True), torch.Event("remote", enable_timing=True)
    start.record()
    torch.remote._sleep(LONG)
    end.record()
    start.synchronize()
    assert not end.query()
    with pytest.raises(RuntimeError, match="Both events must be completed"):
        start.elapsed_time(end)
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= LONG / 1e6


def test_streams_are_independent() -> None:
    """A busy stream delays no other, unless that waits for an event."""
    x = torch.zeros(2, device="remote")
    torch.accelerator.synchronize()
    side = torch.Stream("remote")
    with side:
        torch.remote._sleep(LONG)
        x.fill_(1)
    assert x.tolist() == [0, 0]
    assert not side.query()
    torch.accelerator.current_stream().wait_stream(side)
    assert x.tolist() == [1, 1]


def test_memory_lives_until_the_streams_have_passed() -> None:
    """A tensor that is freed while another stream still uses it is read as it was."""
    x = torch.full((1000,), 5.0, device="remote")
    torch.accelerator.synchronize()
    side = torch.Stream("remote")
    with side:
        torch.remote._sleep(LONG)
        result = x + 1
    del x
    torch.full((1000,), 7.0, device="remote")
    side.synchronize()
    assert result.unique().tolist() == [6]


def test_errors_come_later() -> None:
    """An operator's error is raised by the next wait, with its type, and the device continues."""
    x = torch.arange(3.0, device="remote")
    wrong = x[torch.tensor([7], device="remote")]  # the shape is right, so the host knows nothing
    with pytest.raises(IndexError, match="index 7 is out of bounds") as caught:
        torch.accelerator.synchronize()
    assert wrong.shape == (1,)
    assert any("On remote:0:" in note and "process.py" in note for note in caught.value.__notes__)
    assert (x + 1).tolist() == [1, 2, 3]
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(-torch.eye(2, device="remote")).tolist()


def test_events_of_two_devices() -> None:
    """A stream can wait for an event of another device."""
    event = torch.Event("remote:0")
    torch.remote._sleep(LONG)
    event.record(torch.accelerator.current_stream("remote:0"))
    torch.Stream("remote:1").wait_event(event)
    assert event.query()


def test_an_index_below_zero_is_the_current_device() -> None:
    """PyTorch means "unchanged" by it, so it must not become the index of a device."""
    for exchange in (torch._C._accelerator_exchangeDevice, torch._C._accelerator_maybeExchangeDevice):
        before = torch.accelerator.current_device_index()
        assert exchange(-1) == before
        assert torch.accelerator.current_device_index() == before


FUNCTIONS = ("set_device", "device", "synchronize", "reset", "memory_allocated", "get_rng_state")


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("device", ["cuda:1", "cpu", torch.device("meta")], ids=str)
def test_a_device_of_another_type_is_refused(function: str, device: str | torch.device) -> None:
    """Its index is not that of a device of this backend."""
    with pytest.raises(ValueError, match=f"^remote: a device of remote is needed, got '{device}'$"):
        getattr(torch.remote, function)(device)
    assert torch.accelerator.current_device_index() == 0


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("index", [-5, -2, 16])
def test_an_index_that_does_not_exist_is_refused(function: str, index: int) -> None:
    """Only -1 means the current device."""
    with pytest.raises(ValueError, match=rf"^remote:{index} does not exist, there are \d+ devices"):
        getattr(torch.remote, function)(index)


def test_the_current_device_has_five_names() -> None:
    """A device of this type without an index is the current one, too."""
    torch.remote.set_device(torch.remote.device_count() - 1)
    try:
        for name in (None, -1, "remote", torch.device("remote"), torch.remote.current_device()):
            torch.remote.set_device(name)
            assert torch.remote.current_device() == torch.remote.device_count() - 1
    finally:
        torch.remote.set_device("remote:0")


def test_no_stream_is_busy_for_less_than_nothing() -> None:
    """The mistake is an exception of the call, and not of the next wait."""
    with pytest.raises(ValueError, match=r"^remote: a stream is kept busy for 0 nanoseconds or more, got -1$"):
        torch.remote._sleep(-1)
    torch.remote._sleep(0)
    torch.remote.synchronize()


def test_who_hears_of_the_end_finds_the_stream_idle() -> None:
    """After any kind of wait: for an event, the stream, the device or a value."""
    stream, event = torch.accelerator.current_stream(), torch.Event("remote")
    x = torch.ones(2, device="remote")

    def recorded() -> None:
        event.record()
        event.synchronize()

    for wait in (recorded, stream.synchronize, torch.accelerator.synchronize, x.tolist):
        for _ in range(200):
            x.add_(1)
            wait()
            assert stream.query(), wait


def test_streams_come_from_a_pool() -> None:
    """Each is a thread of the device, which never ends."""
    assert len({torch.Stream("remote").native_handle for _ in range(100)}) == 32
