from __future__ import annotations

import copy
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.offers import DEVICES, LAST_DEVICE
from tests.runtime.busy import destroy_driver_stream, held, new_driver_stream, sleep_on

RunProcess = Callable[..., subprocess.CompletedProcess[str]]
LAST = torch.device(LAST_DEVICE).index


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
    elsewhere = {torch.Stream(LAST_DEVICE).stream_id for _ in range(100)}
    assert len(ids) == len(urgent) == len(elsewhere) == 32
    assert len(ids | urgent | elsewhere) == 32 * (1 + len(DEVICES))
    assert 0 not in ids


@pytest.mark.needs("priorities")
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
    with torch.Stream(LAST_DEVICE) as stream:
        assert torch.accelerator.current_device_index() == LAST
        assert torch.accelerator.current_stream() == stream
        assert torch.ones(2, device="openreg").device == torch.device(LAST_DEVICE)
    assert torch.accelerator.current_device_index() == 0


@pytest.mark.parametrize("make", [torch.openreg.stream, lambda stream: torch.openreg.device(stream.device)])
def test_a_context_that_is_entered_again_inside_itself_restores(make: Callable[[torch.Stream], Any]) -> None:
    before = torch.accelerator.current_stream()
    context = make(torch.Stream(LAST_DEVICE))
    with context, context:
        assert torch.accelerator.current_device_index() == LAST
    assert torch.accelerator.current_stream() == before


def test_two_threads_keep_different_streams_of_one_device() -> None:
    mine, theirs = torch.Stream("openreg:0"), torch.Stream("openreg:0")
    seen: list[torch.Stream] = []

    def choose() -> None:
        torch.accelerator.set_stream(theirs)
        seen.append(torch.accelerator.current_stream())

    with mine:
        thread = threading.Thread(target=choose)
        thread.start()
        thread.join()
        assert torch.accelerator.current_stream() == mine
    assert seen == [theirs]


def test_a_stream_without_an_index_is_one_of_the_current_device() -> None:
    side = torch.Stream(LAST_DEVICE)
    anywhere = torch.Stream(stream_id=0, device_index=-1, device_type=side.device_type)
    with torch.openreg.device(LAST):
        torch.accelerator.set_stream(side)
        torch.accelerator.set_stream(anywhere)
        assert torch.openreg.current_stream(LAST) == torch.openreg.default_stream(LAST)
        assert anywhere.native_handle == torch.openreg.default_stream(LAST).native_handle


def test_work_goes_to_the_stream_of_the_tensors_device() -> None:
    x, ones = torch.zeros(4, device=LAST_DEVICE), torch.ones(4, device=LAST_DEVICE)
    side = torch.Stream(LAST_DEVICE)
    torch.accelerator.synchronize(LAST)
    with held(torch.openreg.default_stream(LAST)) as gate:
        assert torch.accelerator.current_device_index() == 0
        x.copy_(ones)
        with side:
            assert x.tolist() == [0.0] * 4
        gate.set()
        assert x.tolist() == [1.0] * 4


def test_the_default_stream_waits_for_no_other() -> None:
    side = torch.Stream("openreg:0")
    with held(side):
        assert torch.ones(2, device="openreg:0").abs().tolist() == [1.0, 1.0]
        assert torch.openreg.default_stream(0).query()
        assert not side.query()


def test_set_stream() -> None:
    before, new = torch.accelerator.current_stream(), torch.Stream("openreg:0")
    torch.accelerator.set_stream(new)
    assert torch.openreg.current_stream() == new
    torch.openreg.set_stream(before)
    assert torch.openreg.current_stream() == before


@pytest.mark.needs("two devices")
def test_two_threads_enter_the_same_stream() -> None:
    stream = torch.openreg.Stream("openreg:0")
    entered, leave = threading.Event(), threading.Event()
    seen: list[object] = []

    def work() -> None:
        torch.openreg.set_device(1)
        own = torch.openreg.Stream("openreg:1")
        torch.openreg.set_stream(own)
        with torch.openreg.stream(stream):
            entered.set()
            leave.wait()
        seen.append((torch.openreg.current_device(), torch.openreg.current_stream() == own))

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    with torch.openreg.stream(stream):
        leave.set()
        thread.join()
    assert (seen, torch.openreg.current_device()) == ([(1, True)], 0)
    assert torch.openreg.current_stream() == torch.openreg.default_stream()


def test_setting_no_stream_changes_nothing() -> None:
    before = torch.openreg.current_stream()
    torch.openreg.set_stream(None)
    assert torch.openreg.current_stream() == before


def test_the_module_s_stream_context_accepts_none() -> None:
    before = torch.openreg.current_stream()
    with torch.openreg.stream(None):
        assert torch.openreg.current_stream() == before
    new = torch.openreg.Stream(LAST_DEVICE)
    with torch.openreg.stream(new):
        assert torch.openreg.current_stream() == new
    assert torch.openreg.current_stream() == before


def test_an_external_stream() -> None:
    handle = new_driver_stream(LAST)
    stream = torch.openreg.get_stream_from_external(handle)
    assert stream.device == torch.device(LAST_DEVICE)
    assert stream.native_handle == handle
    with stream:
        assert (torch.ones(3, device="openreg") * 2).tolist() == [2.0] * 3
    assert stream.query()
    default = torch.openreg.default_stream(LAST)
    assert torch.openreg.get_stream_from_external(default.native_handle) == default
    destroy_driver_stream(handle)
    for use in (stream.query, stream.synchronize, stream.__enter__):
        # PyTorch's __enter__ has made the stream's device current by the time the stream is refused.
        with (
            torch.openreg.device(0),
            pytest.raises(RuntimeError, match=f"{handle:#x} is not a stream, or no longer"),
        ):
            use()
    with pytest.raises(RuntimeError, match="is not a stream, or no longer"):
        torch.openreg.get_stream_from_external(handle)
    with pytest.raises(RuntimeError, match="0 is not the handle of a stream"):
        torch.openreg.get_stream_from_external(0)


@pytest.mark.needs("two devices")
def test_an_external_stream_of_a_device_that_is_named() -> None:
    handle = torch.Stream("openreg:1").native_handle
    assert torch.openreg.get_stream_from_external(data_ptr=handle, device="openreg:1").device_index == 1
    with pytest.raises(ValueError, match=f"the stream {handle:#x} belongs to openreg:1, and 0 was given"):
        torch.openreg.get_stream_from_external(handle, 0)


def test_an_external_stream_that_ends_while_it_is_current() -> None:
    handle = new_driver_stream(0)
    with torch.openreg.device(0):
        torch.accelerator.set_stream(torch.openreg.get_stream_from_external(handle))
        assert torch.ones(2, device="openreg:0").sum().item() == 2
        destroy_driver_stream(handle)
        with pytest.raises(RuntimeError, match=f"{handle:#x} is not a stream, or no longer"):
            torch.ones(2, device="openreg:0")
        torch.accelerator.set_stream(torch.openreg.default_stream(0))
        assert torch.ones(2, device="openreg:0").sum().item() == 2


def test_a_stream_of_another_backend_is_refused() -> None:
    cpu = torch.Stream("cpu")
    with pytest.raises(RuntimeError, match="a stream of this backend is needed, got stream 0 on device cpu"):
        torch.openreg.stream_priority(cpu)
    with pytest.raises(RuntimeError, match="stream's device type CPU doesn't match the current accelerator OPENREG"):
        torch.accelerator.set_stream(cpu)


@pytest.mark.parametrize("function", ["current_stream", "default_stream"])
def test_a_device_that_does_not_exist(function: str) -> None:
    call = getattr(torch.openreg, function)
    for index in (LAST + 1, 300, -2):
        with pytest.raises(
            RuntimeError, match=f"device index {index} was asked for, but the valid indices are 0 to {LAST}"
        ):
            call(index)
    with pytest.raises(ValueError, match="a device of openreg is needed, got 'cpu'"):
        call("cpu")
    with pytest.raises(RuntimeError, match=f"device index {LAST + 1} was asked for"):
        torch.Stream(f"openreg:{LAST + 1}")


def test_streams_and_events_are_pytorchs_own() -> None:
    assert torch.openreg.Stream is torch.Stream
    assert torch.openreg.Event is torch.Event
    with pytest.raises(TypeError, match=r"cannot pickle 'torch\.Stream' object"):
        copy.deepcopy(torch.Stream("openreg:0"))


@pytest.mark.needs("two devices")
def test_a_stream_of_another_device_is_refused() -> None:
    one = torch.Stream("openreg:1")
    wrong = torch.Stream(stream_id=one.stream_id, device_index=0, device_type=one.device_type)
    with pytest.raises(RuntimeError, match="does not exist: a stream of openreg:1 has this id"):
        wrong.query()
    nowhere = torch.Stream(stream_id=0, device_index=LAST + 1, device_type=one.device_type)
    with pytest.raises(
        RuntimeError, match=f"device index {LAST + 1} was asked for, but the valid indices are 0 to {LAST}"
    ):
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


@pytest.mark.needs("two devices")
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


def test_backward_waits_where_the_streams_change() -> None:
    side, far = torch.Stream("openreg:0"), torch.Stream(LAST_DEVICE)

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.abs()

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            torch.openreg._sleep(50_000_000)
            return grad.abs()

    x = torch.ones(4, device="openreg:0", requires_grad=True)
    with side:
        y = Slow.apply(x)
    far.wait_stream(side)
    with far:
        z = Slow.apply(y.to(LAST_DEVICE))
    z.backward(torch.full((4,), -5.0, device=LAST_DEVICE))
    assert x.grad is not None
    assert x.grad.tolist() == [5.0] * 4


def test_a_future_orders_streams_and_keeps_memory() -> None:
    producer, consumer = torch.Stream("openreg:0"), torch.Stream("openreg:0")
    x, seven = torch.zeros(1000, device="openreg:0"), torch.full((1000,), 7.0, device="openreg:0")
    address = x.data_ptr()
    torch.accelerator.synchronize(0)
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=["openreg:0"])
    with held(producer) as gate, producer:
        x.copy_(seven)
        future.set_result(x)
        with consumer:
            value = future.wait()
            assert not consumer.query()
            gate.set()
            assert value.tolist() == [7.0] * 1000
    with held(consumer):
        del x, value, future
        blocks = [block for segment in torch.openreg.memory_snapshot() for block in segment["blocks"]]
        assert [block["state"] for block in blocks if block["address"] == address] == ["active_awaiting_free"]


def test_a_futures_callback_runs_on_a_stream_of_the_pool() -> None:
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=["openreg:0"])
    future.set_result(torch.ones(2, device="openreg:0"))
    stream_id = future.then(lambda _: torch.accelerator.current_stream(0).stream_id).wait()
    pool = {torch.Stream("openreg:0").stream_id for _ in range(32)}
    assert stream_id in pool


def test_a_stream_in_a_forked_process(run_process: RunProcess) -> None:
    done = run_process("""
        import os, warnings, torch
        warnings.simplefilter("ignore", DeprecationWarning)
        stream = torch.Stream("openreg")
        event = stream.record_event()
        if os.fork() == 0:
            for call in (stream.query, stream.synchronize, event.query, event.record, lambda: torch.Stream("openreg")):
                try:
                    call()
                except RuntimeError as error:
                    print(str(error).split(":")[0], flush=True)
            del stream, event
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        event.synchronize()
        print(event.query())
    """)
    assert done.stdout.split() == ["orErrorForked"] * 5 + ["0", "True"]
    assert "Warning" not in done.stderr


def test_pool_streams_start_no_thread_before_they_are_used() -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    torch.accelerator.synchronize()
    before = threads()
    streams = [torch.Stream(LAST_DEVICE, priority=-1) for _ in range(32)]
    assert all(stream.query() for stream in streams)
    assert threads() == before
