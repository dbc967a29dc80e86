from __future__ import annotations

import threading

import pytest
import torch

from tests.runtime.busy import destroy_driver_stream, new_driver_stream, sleep_on

DEVICES = ["openreg:0", "openreg:1"]


@pytest.mark.parametrize("device", DEVICES)
def test_every_thread_starts_with_the_default_stream(device: str) -> None:
    stream = torch.accelerator.current_stream(torch.device(device))
    assert stream.device == torch.device(device)
    assert stream.stream_id == 0
    assert stream.native_handle != 0
    assert not stream.is_capturing()
    assert stream == torch.openreg.default_stream(device) == torch.openreg.current_stream(device)


def test_the_current_stream_is_the_threads_own() -> None:
    mine = torch.Stream("openreg:0")
    seen: list[int] = []
    with mine:
        thread = threading.Thread(target=lambda: seen.append(torch.accelerator.current_stream().stream_id))
        thread.start()
        thread.join()
        assert torch.accelerator.current_stream() == mine
    assert seen == [0]
    assert torch.accelerator.current_stream().stream_id == 0


def test_streams_come_from_a_pool_of_32_for_each_device_and_priority() -> None:
    ids = {torch.Stream("openreg:0").stream_id for _ in range(100)}
    urgent = {torch.Stream("openreg:0", priority=-1).stream_id for _ in range(100)}
    elsewhere = {torch.Stream("openreg:1").stream_id for _ in range(100)}
    assert len(ids) == len(urgent) == len(elsewhere) == 32
    assert len(ids | urgent | elsewhere) == 96
    assert 0 not in ids


@pytest.mark.parametrize(("asked", "given"), [(0, 0), (5, 0), (-1, -1), (-7, -1)])
def test_priorities(asked: int, given: int) -> None:
    assert torch.openreg.stream_priority(torch.openreg.Stream(priority=asked)) == given


def test_work_waits_for_no_other_stream() -> None:
    busy, idle = torch.Stream("openreg:0"), torch.Stream("openreg:0")
    x = torch.arange(100.0, device="openreg:0")
    torch.accelerator.synchronize()
    sleep_on(busy, 200)
    with idle:
        total = x.abs().sum().item()
    assert total == 4950
    assert idle.query()
    assert not busy.query()
    busy.synchronize()
    assert busy.query()


def test_wait_stream_and_wait_event_order_two_streams() -> None:
    producer, consumer = torch.Stream("openreg:0"), torch.Stream("openreg:0")
    for wait in ("stream", "event"):
        x = torch.zeros(1000, device="openreg:0")
        torch.accelerator.synchronize()
        with producer:
            sleep_on(producer, 30)
            x.copy_(torch.full((1000,), 7.0).pin_memory(), non_blocking=True)
        consumer.wait_stream(producer) if wait == "stream" else consumer.wait_event(producer.record_event())
        with consumer:
            assert x.tolist() == [7.0] * 1000


def test_a_missing_wait_shows() -> None:
    producer, consumer = torch.Stream("openreg:0"), torch.Stream("openreg:0")
    x = torch.zeros(1000, device="openreg:0")
    source = torch.full((1000,), 7.0).pin_memory()
    torch.accelerator.synchronize()
    with producer:
        sleep_on(producer, 200)
        x.copy_(source, non_blocking=True)
    with consumer:
        assert x.tolist() == [0.0] * 1000
    producer.synchronize()
    assert x.tolist() == [7.0] * 1000


def test_a_stream_as_context_switches_the_device_and_back() -> None:
    with torch.Stream("openreg:1") as stream:
        assert torch.accelerator.current_device_index() == 1
        assert torch.accelerator.current_stream() == stream
        assert torch.ones(2, device="openreg").device == torch.device("openreg:1")
    assert torch.accelerator.current_device_index() == 0


def test_set_stream() -> None:
    before, new = torch.accelerator.current_stream(), torch.Stream("openreg:0")
    torch.accelerator.set_stream(new)
    assert torch.openreg.current_stream() == new
    torch.openreg.set_stream(before)
    assert torch.openreg.current_stream() == before


def test_the_module_s_stream_context_accepts_none() -> None:
    before = torch.openreg.current_stream()
    with torch.openreg.stream(None):
        assert torch.openreg.current_stream() == before
    new = torch.openreg.Stream("openreg:1")
    with torch.openreg.stream(new):
        assert torch.openreg.current_stream() == new
    assert torch.openreg.current_stream() == before


def test_an_external_stream() -> None:
    handle = new_driver_stream(1)
    stream = torch.openreg.get_stream_from_external(handle)
    assert stream.device == torch.device("openreg:1")
    assert stream.native_handle == handle
    with stream:
        assert (torch.ones(3, device="openreg") * 2).tolist() == [2.0] * 3
    assert stream.query()
    default = torch.openreg.default_stream(1)
    assert torch.openreg.get_stream_from_external(default.native_handle) == default
    destroy_driver_stream(handle)
    for use in (stream.query, stream.synchronize, stream.__enter__):
        with pytest.raises(RuntimeError, match=f"{handle:#x} is not a stream, or no longer"):
            use()
    with pytest.raises(RuntimeError, match="is not a stream, or no longer"):
        torch.openreg.get_stream_from_external(handle)
    with pytest.raises(RuntimeError, match="0 is not the handle of a stream"):
        torch.openreg.get_stream_from_external(0)


def test_a_stream_of_another_device_is_refused() -> None:
    one = torch.Stream("openreg:1")
    wrong = torch.Stream(stream_id=one.stream_id, device_index=0, device_type=one.device_type)
    with pytest.raises(RuntimeError, match="does not exist: a stream of openreg:1 has this id"):
        wrong.query()
    nowhere = torch.Stream(stream_id=0, device_index=7, device_type=one.device_type)
    with pytest.raises(RuntimeError, match="device index 7 was asked for, but the valid indices are 0 to 1"):
        nowhere.synchronize()


def test_backward_runs_on_the_stream_of_its_forward() -> None:
    side = torch.Stream("openreg:0")
    streams: list[int] = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            streams.append(torch.accelerator.current_stream().stream_id)
            return grad * 3

    x = torch.ones(4, device="openreg:0", requires_grad=True)
    with side:
        y = Watch.apply(x * 2).sum()
    y.backward()
    torch.accelerator.synchronize()
    assert streams == [side.stream_id]
    assert x.grad is not None
    assert x.grad.tolist() == [6.0] * 4


def test_backward_across_devices_and_streams() -> None:
    x = torch.arange(6.0, requires_grad=True)
    first, second = torch.Stream("openreg:0"), torch.Stream("openreg:1")
    with first:
        y = x.to("openreg:0", non_blocking=True) * 3
    second.wait_stream(first)
    with second:
        z = y.to("openreg:1").exp().sum() * 2
    z.backward()
    expected = torch.autograd.grad((x * 3).exp().sum() * 2, x)[0]
    torch.testing.assert_close(x.grad, expected)


def test_pool_streams_start_no_thread_before_they_are_used() -> None:
    from pathlib import Path

    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    torch.accelerator.synchronize()
    before = threads()
    streams = [torch.Stream("openreg:1", priority=-1) for _ in range(32)]
    assert all(stream.query() for stream in streams)
    assert threads() == before
