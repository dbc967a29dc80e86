"""Generated kernels run on the current stream of their device, after what was queued before them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.profiler import profile

from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.usefixtures("inductor")


@pytest.mark.needs("queue")
def test_a_kernel_is_queued_on_the_current_stream() -> None:
    compiled = torch.compile(lambda x: (x * 2).sin(), fullgraph=True)
    x = torch.randn(50)
    on_device = x.to(LAST_DEVICE)
    compiled(on_device)
    torch.openreg.synchronize(LAST_DEVICE)
    with torch.Stream(LAST_DEVICE) as stream:
        torch.openreg._sleep(3_000_000_000)
        result = compiled(on_device)
        assert not stream.query()
        assert torch.openreg.default_stream(LAST_DEVICE).query()
    stream.synchronize()
    torch.testing.assert_close(result.cpu(), (x * 2).sin())


def test_memory_of_a_dropped_input_is_not_reused_too_early() -> None:
    compiled = torch.compile(lambda x: x * 2 + 1, fullgraph=True)
    x = torch.randn(1000)
    compiled(x.to(LAST_DEVICE))
    with torch.openreg.device(LAST_DEVICE):
        on_device = x.to(LAST_DEVICE)
        torch.openreg._sleep(20_000_000)
        result = compiled(on_device)
        del on_device
        overwritten = torch.full((1000,), 7.0, device=LAST_DEVICE)
    torch.testing.assert_close(result.cpu(), x * 2 + 1)
    assert overwritten.sum().item() == 7000


@pytest.mark.needs("queue")
@pytest.mark.parametrize("reuse", [True, False])
def test_memory_that_another_stream_reads_is_not_reused(reuse: bool) -> None:
    """The streams are joined as in eager mode, where each tensor lives until its name goes."""
    side = torch.Stream(LAST_DEVICE)

    def function(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        main = torch.openreg.current_stream(LAST_DEVICE)
        y = x * 2
        side.wait_stream(main)
        with side:
            z = y.sin().cos().exp().sum(0)
        shifted = ((x + 5).cos() @ x) + 1
        scaled = y * 3  # may be computed in place, were the other stream not reading y
        main.wait_stream(side)
        return z + 1, shifted @ x, scaled.neg() @ x

    x = torch.randn(600, 600, dtype=torch.float64).to(LAST_DEVICE)
    with torch.openreg.device(LAST_DEVICE):
        expected = function(x)
        compiled = torch.compile(function, fullgraph=True, options={"allow_buffer_reuse": reuse})
        for _ in range(3):
            results = compiled(x)
            torch.openreg.synchronize()
            torch.testing.assert_close(results, expected)


@pytest.mark.needs("two devices")
def test_a_graph_for_each_device_and_one_for_both() -> None:
    x = torch.randn(50)
    compiled = torch.compile(lambda x: (x * 2).sin(), fullgraph=True)
    for device in ("openreg:0", "openreg:1"):
        result = compiled(x.to(device))
        assert result.device == torch.device(device)
        torch.testing.assert_close(result.cpu(), (x * 2).sin())

    def both(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return (a * 2).sin(), (a.to(b.device) + b).exp()

    first, second = torch.compile(both, fullgraph=True)(x.to("openreg:0"), x.to("openreg:1"))
    torch.testing.assert_close(first.cpu(), (x * 2).sin())
    torch.testing.assert_close(second.cpu(), (2 * x).exp())


def test_streams_and_events_inside_a_function() -> None:
    side = torch.Stream(LAST_DEVICE)

    def on_two_streams(x: Tensor) -> Tensor:
        y = x * 2
        ready = torch.openreg.current_stream(LAST_DEVICE).record_event()
        with side:
            side.wait_event(ready)
            z = y.sin()
            done = side.record_event()
        torch.openreg.current_stream(LAST_DEVICE).wait_event(done)
        return z + 1

    x = torch.randn(50)
    with torch.openreg.device(LAST_DEVICE):
        result = torch.compile(on_two_streams, fullgraph=True)(x.to(LAST_DEVICE))
    torch.testing.assert_close(result.cpu(), (x * 2).sin() + 1)


@pytest.mark.needs("queue")
def test_the_last_kernel_of_a_stream_block_runs_on_that_stream() -> None:
    side = torch.Stream(LAST_DEVICE)

    def on_the_side(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        side.wait_stream(torch.openreg.current_stream(LAST_DEVICE))
        with side:
            return y, y.sin()

    compiled = torch.compile(on_the_side, fullgraph=True)
    with torch.openreg.device(LAST_DEVICE):
        x = torch.randn(50)
        on_device = x.to(LAST_DEVICE)
        compiled(on_device)
        torch.openreg.synchronize()
        with side:
            torch.openreg._sleep(3_000_000_000)
        result = compiled(on_device)[1]
        torch.openreg.current_stream().synchronize()
        assert not side.query()
    side.synchronize()
    torch.testing.assert_close(result.cpu(), (x * 2).sin())


def test_the_current_stream_of_the_current_device_is_traced() -> None:
    def waits(x: Tensor) -> Tensor:
        side = torch.Stream(LAST_DEVICE)
        side.wait_stream(torch.openreg.current_stream())
        with torch.openreg.stream(side):
            y = x * 2
        torch.openreg.current_stream().wait_stream(side)
        return y

    with torch.openreg.device(LAST_DEVICE):
        x = torch.randn(50, device=LAST_DEVICE)
        compiled = torch.compile(waits, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x).cpu(), x.cpu() * 2)


@pytest.mark.needs("activity")
def test_a_profile_names_the_kernel() -> None:
    compiled = torch.compile(lambda x: (x * 2).sin(), fullgraph=True)
    x = torch.randn(50, device=LAST_DEVICE)
    compiled(x)
    with profile() as recorded:
        compiled(x)
    assert [event.name for event in recorded.events() if event.name.startswith("openreg_fused")] == [
        "openreg_fused_mul_sin_0"
    ]


@pytest.mark.parametrize("cpp_wrapper", [False, True], ids=["python", "cpp_wrapper"])
@pytest.mark.parametrize("how", ["event", "stream"])
def test_what_the_program_orders_comes_after_the_kernels_before_it(how: str, cpp_wrapper: bool) -> None:
    """Operators of streams and events have no device, and no block of a stream ends here."""
    side, ready = torch.Stream(LAST_DEVICE), torch.Event(LAST_DEVICE)

    def ordered(x: Tensor) -> Tensor:
        y = (x * 2).sin()
        if how == "event":
            ready.record(torch.openreg.current_stream(LAST_DEVICE))
        else:
            side.wait_stream(torch.openreg.current_stream(LAST_DEVICE))
        return y

    compiled = torch.compile(ordered, fullgraph=True, options={"cpp_wrapper": cpp_wrapper})
    x = torch.randn(1 << 20)
    with torch.openreg.device(LAST_DEVICE):
        for _ in range(3):
            result = compiled(x.to(LAST_DEVICE))
            result.record_stream(side)
            if how == "event":
                side.wait_event(ready)
            with side:
                torch.testing.assert_close(result.cpu(), (x * 2).sin())


def test_an_event_is_written_after_the_kernels_before_it() -> None:
    from torch._inductor.utils import run_and_get_code

    ready = torch.Event(LAST_DEVICE)

    def recorded(x: Tensor) -> Tensor:
        y = x * 2
        ready.record(torch.openreg.current_stream(LAST_DEVICE))
        return y

    with torch.openreg.device(LAST_DEVICE):
        result, (code,) = run_and_get_code(torch.compile(recorded, fullgraph=True), torch.ones(4, device=LAST_DEVICE))
    assert result.tolist() == [2.0] * 4
    calls = code[code.index("def call(") :]
    assert calls.index("openreg_fused") < calls.index("torch.ops.streams.record_event")
