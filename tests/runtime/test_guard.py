from __future__ import annotations

import pytest
import torch

DEVICES = ["openreg:0", "openreg:1"]


@pytest.mark.parametrize("device", DEVICES)
def test_the_current_stream_is_the_default_stream(device: str) -> None:
    stream = torch.accelerator.current_stream(torch.device(device))
    assert stream.device == torch.device(device)
    assert stream.stream_id == 0
    assert stream.native_handle != 0
    assert not stream.is_capturing()
    stream.synchronize()
    assert stream.query()
    with stream:
        assert torch.ones(1, device=device).item() == 1


def test_a_new_stream_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Backend doesn't support create a new Stream"):
        torch.Stream("openreg")


def test_events_order_and_time() -> None:
    start, end = torch.Event("openreg", enable_timing=True), torch.Event("openreg", enable_timing=True)
    assert start.query()  # never recorded: nothing to wait for
    start.record()
    x = torch.ones(1 << 20, device="openreg").abs()
    end.record()
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= 0
    assert x.sum().item() == 1 << 20


def test_an_event_that_was_not_recorded_has_no_time() -> None:
    start, end = torch.Event("openreg", enable_timing=True), torch.Event("openreg", enable_timing=True)
    start.record()
    with pytest.raises(ValueError, match="Both events must be recorded"):
        start.elapsed_time(end)


def test_an_event_holds_up_another_device() -> None:
    event = torch.Event("openreg:0")
    event.record(torch.accelerator.current_stream(torch.device("openreg:0")))
    event.wait(torch.accelerator.current_stream(torch.device("openreg:1")))
    torch.accelerator.synchronize(1)
    assert event.query()


def test_capability_lists_what_runs() -> None:
    supported = torch.accelerator.get_device_capability("openreg:0")["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.int64} <= supported
    assert not {torch.qint8, torch.quint4x2} & supported
    for dtype in supported:
        assert torch.zeros(3, dtype=dtype).to("openreg").cpu().dtype == dtype


def test_synchronize_every_way() -> None:
    torch.openreg.synchronize()
    torch.openreg.synchronize("openreg:1")
    torch.accelerator.synchronize()


def test_backward_across_devices() -> None:
    x = torch.arange(6.0, requires_grad=True)
    y = (x.to("openreg:0") * 3).to("openreg:1").exp()
    (y.sum() * 2).backward()
    expected = torch.autograd.grad(((x * 3).exp().sum() * 2), x)[0]
    torch.testing.assert_close(x.grad, expected)
