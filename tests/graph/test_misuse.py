"""What a capture cannot contain, and calls in the wrong order: the error, its message, and that the device is well."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch

from tests.graph.capture import Mode, captured, module, replayed
from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.needs("graphs", "kernels")

WAITS = "while a graph is captured: its work is recorded and does not run"


def x() -> torch.Tensor:
    return torch.ones(4, device=LAST_DEVICE)


def written() -> torch.Tensor:
    """The same, for any stream: it has been written."""
    y = x()
    torch.accelerator.synchronize(LAST_DEVICE)
    return y


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda y: y[0].item(), f"the host waits for the device: one element is read.*{WAITS}"),
        (lambda y: bool(y.sum() > 0), f"one element is read, as item.*{WAITS}"),
        (lambda y: repr(y), WAITS),
        (lambda y: y.cpu(), f"a copy to the CPU without non_blocking=True, or one that the host converts, {WAITS}"),
        (lambda y: y.copy_(torch.zeros(4)), f"a copy to the device without non_blocking=True, {WAITS}"),
        (lambda y: y.copy_(torch.zeros(4), non_blocking=True), f"reads host memory that is not pinned, {WAITS}"),
        (lambda y: torch.empty(4).copy_(y, non_blocking=True), f"into memory that is not pinned, {WAITS}"),
        (lambda _: torch.accelerator.current_stream(LAST_DEVICE).synchronize(), f"waits for the stream, {WAITS}"),
        (lambda _: torch.accelerator.current_stream(LAST_DEVICE).query(), "orStreamQuery: the stream is being capt"),
        (lambda _: torch.accelerator.synchronize(LAST_DEVICE), "orDeviceSynchronize: a stream of the device is being"),
        (lambda _: torch.accelerator.empty_cache(), r"empty_cache\(\) waits for the device, which is not possible"),
        (lambda y: torch.linalg.eigvals(y.diag()), f"falls back to the CPU, {WAITS}"),
        (lambda y: y.nonzero(), WAITS),
    ],
)  # fmt: skip
def test_a_step_that_needs_a_value_is_refused(step: Callable[[torch.Tensor], object], message: str) -> None:
    y = written()
    graph = torch.accelerator.Graph()
    with torch.Stream(device=LAST_DEVICE):
        graph.capture_begin()
        z = y + 1
        with pytest.raises(RuntimeError, match=message):
            step(z)
        if "empty_cache" in message:  # refused before it reaches the driver, and nothing is missing in the graph
            graph.capture_end()
        else:
            with pytest.raises(
                RuntimeError, match=r"orErrorStreamCaptureInvalidated.*has been invalid since this call"
            ):
                graph.capture_end()
            with pytest.raises(RuntimeError, match="nothing has been captured: replay"):
                graph.replay()
    assert (y + 1).cpu().tolist() == [2.0] * 4
    graph.reset()
    again, result = captured(lambda: y * 6)
    replayed(again)
    assert result.cpu().tolist() == [6.0] * 4


def test_the_first_error_of_a_with_block_is_the_cause_of_the_last() -> None:
    y = written()
    with pytest.raises(RuntimeError, match="orErrorStreamCaptureInvalidated") as raised:
        captured(lambda: y.sum().item())
    assert "one element is read" in str(raised.value.__context__)


def test_the_default_stream_is_not_captured() -> None:
    graph = torch.accelerator.Graph()
    message = r"this is the default stream of .*every thread's work would be recorded"
    index = torch.device(LAST_DEVICE).index
    with torch.accelerator.device_index(index), pytest.raises(RuntimeError, match=message):
        graph.capture_begin()
    assert captured(lambda: x() + 1)[0].pool() > (0, 0)


def test_a_fork_that_is_not_joined() -> None:
    y, side = written(), torch.Stream(device=LAST_DEVICE)

    def work() -> torch.Tensor:
        side.wait_stream(torch.accelerator.current_stream(LAST_DEVICE))
        with side:
            return y * 2

    with pytest.raises(RuntimeError, match=r"orErrorStreamCaptureUnjoined.*has no way back: record an event on it"):
        captured(work)
    with side:
        assert (y * 3).cpu().tolist() == [3.0] * 4


def test_an_event_from_outside_the_capture() -> None:
    side = torch.Stream(device=LAST_DEVICE)
    event = side.record_event()
    with pytest.raises(RuntimeError, match=r"invalid since this call: orStreamWaitEvent: .*recorded outside the capt"):
        captured(lambda: torch.accelerator.current_stream(LAST_DEVICE).wait_event(event))


def test_an_event_from_a_capture() -> None:
    events = []

    def work() -> None:
        x()
        events.append(torch.accelerator.current_stream(LAST_DEVICE).record_event())

    captured(work)
    for call in (events[0].synchronize, events[0].query):
        with pytest.raises(RuntimeError, match=r"orErrorCapturedEvent.*never passes"):
            call()
    stream = torch.accelerator.current_stream(LAST_DEVICE)
    with pytest.raises(RuntimeError, match="recorded in a capture that has ended; record it again"):
        stream.wait_event(events[0])
    events[0].record(stream)
    events[0].synchronize()
    assert events[0].query()


def test_calls_in_the_wrong_order() -> None:
    graph = torch.accelerator.Graph()
    for call, message in (
        (graph.replay, "nothing has been captured: replay.* comes after capture_end"),
        (graph.capture_end, "no capture of this graph is under way: call capture_begin"),
        (graph.instantiate, "there is no graph to instantiate: capture one"),
        (graph.pool, "a graph has a pool from capture_begin"),
        (lambda: graph.debug_dump("x.dot"), "nothing to dump: call enable_debug_mode.* before the capture ends"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()
    graph.reset()
    with torch.Stream(device=LAST_DEVICE) as stream:
        graph.capture_begin()
        with pytest.raises(RuntimeError, match="has begun a capture already: call reset"):
            graph.capture_begin()
        with pytest.raises(RuntimeError, match="nothing has been captured"):
            graph.replay()
        with torch.Stream(device=LAST_DEVICE), pytest.raises(RuntimeError, match="must end there, but the current"):
            graph.capture_end()
        other = torch.accelerator.Graph()
        with pytest.raises(RuntimeError, match="the stream is being captured already"):
            other.capture_begin()
        third = torch.accelerator.Graph(pool=graph.pool())
        refused = "another capture takes its memory from this pool"
        with torch.Stream(device=LAST_DEVICE), pytest.raises(RuntimeError, match=refused):
            third.capture_begin()
        graph.capture_end()
        assert not stream.is_capturing()
    with pytest.raises(RuntimeError, match="with keep_graph=True, which keeps it beyond the end of the capture"):
        graph.instantiate()


def test_a_replay_cannot_be_captured() -> None:
    y = written()
    inner, _ = captured(lambda: y.add_(1))
    with pytest.raises(RuntimeError, match="orErrorStreamCaptureInvalidated") as raised:
        captured(inner.replay)
    assert "replay() is called on a stream that another graph captures" in str(raised.value.__context__)
    replayed(inner)
    assert y.cpu().tolist() == [2.0] * 4


def test_a_capture_that_is_abandoned() -> None:
    y = written()
    stream = torch.Stream(device=LAST_DEVICE)
    with stream:
        for end in (lambda graph: graph.reset(), lambda graph: None):
            graph = torch.accelerator.Graph()
            graph.capture_begin()
            y.add_(1)
            assert stream.is_capturing()
            end(graph)
            del graph
            assert not stream.is_capturing()
        assert y.cpu().tolist() == [1.0] * 4


@pytest.mark.parametrize("is_valid", [True, False])
def test_a_capture_of_a_thread_that_has_ended(is_valid: bool) -> None:
    begun: list[tuple[torch.accelerator.Graph, torch.Stream]] = []
    y, side = written(), torch.Stream(device=LAST_DEVICE)

    def begin() -> None:
        with torch.Stream(device=LAST_DEVICE) as stream:
            graph = torch.accelerator.Graph()
            graph.capture_begin()
            begun.append((graph, stream))
            y.add_(1)
            if not is_valid:
                with pytest.raises(RuntimeError, match="is being captured"):
                    stream.query()

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    graph, stream = begun.pop()
    with pytest.raises(RuntimeError, match=r"another thread began the capture.*end it there, or discard it"), stream:
        graph.capture_end()
    del graph  # on this thread, as the garbage collector does it
    assert not stream.is_capturing()
    torch.accelerator.synchronize(LAST_DEVICE)
    assert y.cpu().tolist() == [1.0] * 4
    z = torch.ones(300_000, device=LAST_DEVICE)  # memory is reused again: no capture defers it
    address = z.data_ptr()
    z.record_stream(side)
    del z
    torch.accelerator.synchronize(LAST_DEVICE)
    assert torch.empty(300_000, device=LAST_DEVICE).data_ptr() == address


def test_another_thread_cannot_end_a_capture_but_may_wait() -> None:
    errors: list[BaseException] = []
    y = written()
    stream = torch.Stream(device=LAST_DEVICE)

    def elsewhere() -> None:
        try:
            torch.accelerator.synchronize(LAST_DEVICE)
            torch.accelerator.empty_cache()
            assert (y + 1).cpu().tolist() == [2.0] * 4  # this thread's stream is not captured
            with stream:
                graph.capture_end()
        except BaseException as error:
            errors.append(error)

    graph = torch.accelerator.Graph()
    with stream:
        graph.capture_begin()
        z = y * 4
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        graph.capture_end()
    assert "another thread began the capture" in str(errors[0])
    replayed(graph)
    assert z.cpu().tolist() == [4.0] * 4


@pytest.mark.parametrize(("mode", "breaks"), [("global", True), ("thread_local", False), ("relaxed", False)])
def test_the_mode_decides_whose_waits_break_the_capture(mode: Mode, breaks: bool) -> None:
    y = written()

    def work() -> torch.Tensor:
        z = y * 2
        errors: list[BaseException] = []

        def wait() -> None:
            try:
                torch.accelerator.synchronize(LAST_DEVICE)
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
        assert bool(errors) == breaks
        return z

    if breaks:
        with pytest.raises(RuntimeError, match="invalid since this call: orDeviceSynchronize"):
            captured(work, mode=mode)
        return
    graph, z = captured(work, mode=mode)
    replayed(graph)
    assert z.cpu().tolist() == [2.0] * 4


def test_captures_in_several_threads() -> None:
    results: list[list[float]] = []
    failures: list[BaseException] = []
    # Each thread has its own. A pool gives its streams out again: one that is captured here could be another's there.
    streams = [torch.Stream(device=LAST_DEVICE) for _ in range(4)]

    def run(number: int) -> None:
        own = streams[number]
        try:
            value = torch.full((1000,), float(number), device=LAST_DEVICE)
            torch.accelerator.synchronize(LAST_DEVICE)
            for _ in range(10):
                graph, result = captured(lambda: (value * 2 + 1).sum(), stream=own)
                with own:
                    graph.replay()
                    own.synchronize()
                    results.append([number, result.item()])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(results) == [[n, 1000.0 * (2 * n + 1)] for n in range(4) for _ in range(10)]


def test_whether_a_stream_is_captured() -> None:
    answers = []
    stream = torch.Stream(device=LAST_DEVICE)

    def work() -> None:
        answers.append((module.is_current_stream_capturing(), stream.is_capturing()))
        answers.append((torch.accelerator.current_stream(LAST_DEVICE).is_capturing(), torch.Stream().is_capturing()))

    captured(work, stream=stream)
    assert answers == [(True, True), (True, False)]
    assert not module.is_current_stream_capturing()
    assert not stream.is_capturing()


def test_two_threads_do_not_capture_with_one_pool() -> None:
    pool, barrier = module.graph_pool_handle(), threading.Barrier(2)
    outcomes: list[str] = []

    def capture() -> None:
        graph = torch.accelerator.Graph(pool=pool)
        with torch.Stream(device=LAST_DEVICE):
            barrier.wait()
            try:
                graph.capture_begin()
            except RuntimeError as error:
                outcomes.append(str(error).partition(":")[2])
                barrier.wait()
                return
            outcomes.append("captured")
            barrier.wait()  # the other has begun, or was refused
            graph.capture_end()

    for _ in range(20):
        outcomes.clear()
        threads = [threading.Thread(target=capture) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes)[1] == "captured"
        assert "another capture takes its memory from this pool" in sorted(outcomes)[0]
