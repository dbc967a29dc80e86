"""Memory of graphs: kept for the replays, reused within a capture, shared by a handle, released by a reset."""

from __future__ import annotations

import gc
import sys
import threading

import pytest
import torch

from tests.conftest import RunProcess
from tests.graph.capture import captured, captured_over_both, module, replayed
from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.needs("graphs", "kernels")

MIB = 1 << 20


def reserved() -> int:
    gc.collect()
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    return int(module.memory_reserved(LAST_DEVICE))


def allocated(elements: int) -> torch.Tensor:
    return torch.ones(elements, device=LAST_DEVICE)


def test_memory_of_a_capture_is_not_reused_while_the_graph_lives() -> None:
    x = allocated(3 * MIB)
    stream = torch.Stream(device=LAST_DEVICE)
    graph, y = captured(lambda: (x * 2) + 1, stream=stream)  # x * 2 dies in the capture
    with stream:
        others = [torch.full((3 * MIB,), 9.0, device=LAST_DEVICE) for _ in range(3)]
    replayed(graph)
    assert y.cpu().unique().tolist() == [3.0]
    assert all(other.cpu().unique().tolist() == [9.0] for other in others)


def test_a_capture_reuses_what_it_frees() -> None:
    x = allocated(6 * MIB)
    before = reserved()

    def chain() -> torch.Tensor:
        y = x
        for _ in range(12):
            y = y + 1
        return y

    graph, y = captured(chain)
    assert reserved() - before == 2 * 24 * MIB  # two at a time, not twelve
    replayed(graph)
    assert y.cpu().unique().tolist() == [13.0]


def test_tensors_may_die_before_the_graph_and_outlive_it() -> None:
    x = allocated(6 * MIB)
    before = reserved()
    graph, (y, total) = captured(lambda: (x * 3, x.sum()))
    del y
    replayed(graph)  # writes memory of a tensor that is gone
    assert total.item() == 6 * MIB
    with_graph = reserved()
    assert with_graph - before >= 24 * MIB
    graph.reset()
    assert reserved() < with_graph
    assert total.item() == 6 * MIB
    del total
    assert reserved() == before


def test_the_end_of_a_graph_releases_its_memory() -> None:
    x = allocated(6 * MIB)
    before = reserved()
    graph, y = captured(lambda: x * 3)
    del y
    assert reserved() > before
    del graph
    assert reserved() == before


@pytest.mark.long
def test_two_graphs_share_a_pool() -> None:
    x = allocated(6 * MIB)
    before = reserved()
    stream = torch.Stream(device=LAST_DEVICE)
    first, y = captured(lambda: (x * 2).sum(), stream=stream)
    alone = reserved() - before
    second, z = captured(lambda: (x * 3).sum(), stream=stream, pool=first.pool())
    assert second.pool() == first.pool()
    assert reserved() - before < 2 * alone
    for _ in range(2):
        replayed(first)
        assert y.item() == 12 * MIB
        replayed(second)
        assert z.item() == 18 * MIB
    first.reset()
    assert reserved() > before  # the second graph still needs the pool
    replayed(second)
    assert z.item() == 18 * MIB
    second.reset()
    del y, z
    assert reserved() == before


def test_a_handle_names_a_pool_before_the_first_capture() -> None:
    handle = module.graph_pool_handle()
    assert handle != module.graph_pool_handle()
    graph, _ = captured(lambda: allocated(4), pool=handle)
    assert graph.pool() == handle
    other, _ = captured(lambda: allocated(4))
    assert other.pool() != handle


def test_a_block_used_on_another_stream_is_not_reused_in_the_capture() -> None:
    x = allocated(6 * MIB)
    main, side = torch.Stream(device=LAST_DEVICE), torch.Stream(device=LAST_DEVICE)

    def work() -> tuple[torch.Tensor, torch.Tensor]:
        temporary = x * 2
        address = temporary.data_ptr()
        side.wait_stream(main)
        with side:
            result = temporary + 1
        temporary.record_stream(side)
        del temporary
        later = x * 5
        assert later.data_ptr() != address
        main.wait_stream(side)
        return result, later

    graph, (result, later) = captured(work, stream=main)
    replayed(graph)
    assert (result.cpu().unique().tolist(), later.cpu().unique().tolist()) == ([3.0], [5.0])


def test_memory_stays_flat_over_many_replays_and_captures() -> None:
    x = allocated(1 << 16)
    graph, y = captured(lambda: torch.nn.functional.dropout(x + 1, 0.5).sum())
    replayed(graph)
    held = module.memory_allocated(LAST_DEVICE), module.memory_reserved(LAST_DEVICE)
    for _ in range(500):
        graph.replay()
    replayed(graph)
    assert (module.memory_allocated(LAST_DEVICE), module.memory_reserved(LAST_DEVICE)) == held
    assert 0 < y.item() < 4 * (1 << 16)
    del graph, y
    for _ in range(30):
        graph, _ = captured(lambda: x * 2)
        graph.replay()
        graph.reset()
    assert module.memory_reserved(LAST_DEVICE) <= held[1] + 2 * MIB * 2


def test_pinned_memory_of_a_capture_is_not_reused() -> None:
    x = torch.arange(8.0, device=LAST_DEVICE)

    def work() -> list[torch.Tensor]:
        return [torch.empty(8, pin_memory=True).copy_(x * scale, non_blocking=True) for scale in (1, 2)]

    graph, results = captured(work)
    replayed(graph)
    assert [result.tolist() for result in results] == [[scale * float(n) for n in range(8)] for scale in (1, 2)]
    others = [torch.full((8,), 7.0).pin_memory() for _ in range(4)]
    replayed(graph)
    assert all(other.tolist() == [7.0] * 8 for other in others)


@pytest.mark.needs("simulator")
def test_out_of_memory_in_a_capture_says_that_the_cache_was_kept() -> None:
    with pytest.raises(torch.OutOfMemoryError, match=r"with the cache kept, since a graph is captured \(call empty_c"):
        captured(lambda: torch.empty(1 << 45, dtype=torch.uint8, device=LAST_DEVICE))


@pytest.mark.parametrize("joins", [False, True])
def test_pinned_memory_of_a_copy_that_was_queued_before_the_capture(joins: bool) -> None:
    main, other = torch.Stream(device=LAST_DEVICE), torch.Stream(device=LAST_DEVICE)
    x = torch.zeros(1 << 16, device=LAST_DEVICE)
    pinned = torch.full((1 << 16,), 7.0).pin_memory()
    torch.accelerator.synchronize(LAST_DEVICE)
    graph = torch.accelerator.Graph(capture_error_mode="thread_local")
    with other if joins else main:
        torch.openreg._sleep(200_000_000)
        x.copy_(pinned, non_blocking=True)
    with main:
        graph.capture_begin()
        if joins:
            other.wait_stream(main)
        del pinned
        if joins:
            main.wait_stream(other)
        graph.capture_end()
    torch.empty(1 << 16, pin_memory=True).fill_(100.0)
    torch.accelerator.synchronize(LAST_DEVICE)
    assert x.unique().tolist() == [7.0]


@pytest.mark.needs("queue")
def test_a_stream_that_joins_lets_other_threads_of_python_run() -> None:
    main, other = torch.Stream(device=LAST_DEVICE), torch.Stream(device=LAST_DEVICE)
    x, event = allocated(4), torch.Event(LAST_DEVICE)
    torch.accelerator.synchronize(LAST_DEVICE)
    graph = torch.accelerator.Graph(capture_error_mode="thread_local")
    waiting = threading.Event()
    turns: list[int] = []

    def count() -> None:
        waiting.wait()
        while not turns or turns[-1] < 1000:
            turns.append(len(turns))
            threading.Event().wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    with other:
        torch.openreg._sleep(300_000_000)
    with main:
        graph.capture_begin()
        y = x + 1
        event.record(main)
        waiting.set()
        other.wait_event(event)
        meanwhile = len(turns)
        main.wait_stream(other)
        graph.capture_end()
    turns.append(1000)
    thread.join()
    graph.replay()
    torch.accelerator.synchronize(LAST_DEVICE)
    assert y.tolist() == [2.0] * 4
    assert meanwhile > 10


@pytest.mark.needs("queue")
def test_ctrl_c_ends_the_wait_of_a_stream_that_joins(run_process: RunProcess) -> None:
    ran = run_process(
        """
        import os, signal, threading, time, torch
        signal.signal(signal.SIGINT, signal.default_int_handler)
        main, other = torch.Stream("openreg"), torch.Stream("openreg")
        x, event = torch.ones(4, device="openreg"), torch.Event("openreg")
        torch.accelerator.synchronize()
        graph = torch.accelerator.Graph()
        with other:
            torch.openreg._sleep(3_000_000_000)
        with main:
            graph.capture_begin()
            y = x + 1
            event.record(main)
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            start = time.monotonic()
            try:
                other.wait_event(event)
            except KeyboardInterrupt:
                print("interrupted", time.monotonic() - start < 2, flush=True)
        os._exit(0)
        """
    )
    assert ran.stdout == "interrupted True\n", ran.stderr


@pytest.mark.needs("two devices")
def test_memory_of_a_capture_on_another_device_is_not_reused() -> None:
    x, result = (torch.full((MIB,), value, device="openreg:1") for value in (1.0, 0.0))
    torch.accelerator.synchronize(1)
    # The product dies in the capture, and its memory is all that a segment holds.
    graph, _ = captured_over_both(lambda: result.copy_(x * 3))
    torch.accelerator.empty_cache()
    others = [torch.full((MIB,), 7.0, device="openreg:1") for _ in range(8)]
    torch.accelerator.synchronize(1)
    graph.replay()
    torch.accelerator.synchronize(0)
    assert result.cpu().unique().tolist() == [3.0]
    assert [other.cpu().unique().tolist() for other in others] == [[7.0]] * 8


def test_graphs_that_were_dropped_leave_their_memory_to_the_next(run_process: RunProcess) -> None:
    # Each graph has a segment of its own, of 2 MiB. A capture cannot empty the cache when it lacks memory, and of its
    # ways to begin, `with graph` empties it before, and capture_begin() does not.
    ran = run_process(
        """
        import torch
        x = torch.ones(4, device="openreg")
        for _ in range(40):
            graph = torch.accelerator.Graph()
            with torch.Stream("openreg"):
                graph.capture_begin()
                y = x + 1
                graph.capture_end()
            graph.replay()
            torch.accelerator.synchronize()
            assert y.tolist() == [2.0] * 4
            del graph, y
        print(torch.accelerator.memory_reserved(0) <= 8 << 20)
        """,
        OPENREG_DEVICE_MEMORY="32M",
    )
    assert ran.stdout == "True\n", ran.stderr


@pytest.mark.needs("queue", "host functions")
def test_a_capture_begins_while_another_thread_empties_the_cache(run_process: RunProcess) -> None:
    """That waits for two streams: the work of one is over, and its capture begins, while the other is busy."""
    ran = run_process(
        """
        import threading, time, torch
        from tests.offers import LAST_DEVICE
        from tests.runtime.busy import held, sleep_on

        x, first, second = (torch.ones(4, device=LAST_DEVICE) for _ in range(3))
        busy, short = torch.Stream(device=LAST_DEVICE), torch.Stream(device=LAST_DEVICE)
        errors = []

        def empty():
            try:
                torch.accelerator.empty_cache()
            except RuntimeError as error:
                errors.append(error)

        with held(busy) as gate:
            sleep_on(short, 200)
            first.record_stream(busy)
            second.record_stream(short)
            del first, second
            emptying = threading.Thread(target=empty)
            emptying.start()
            time.sleep(0.05)  # it waits for both by now
            short.synchronize()
            graph = torch.accelerator.Graph()
            with short:
                graph.capture_begin()  # `with graph` would wait for the device
                y = x + 1
                gate.set()
                emptying.join()
                graph.capture_end()
        graph.replay()
        torch.accelerator.synchronize(LAST_DEVICE)
        print(errors, y.tolist())
        """
    )
    assert ran.stdout == "[] [2.0, 2.0, 2.0, 2.0]\n", ran.stderr


def test_a_capture_begins_while_another_thread_frees_what_its_stream_used() -> None:
    stream, stopped = torch.Stream(device=LAST_DEVICE), threading.Event()
    x = allocated(4)
    torch.accelerator.synchronize(LAST_DEVICE)
    switches = sys.getswitchinterval()
    freed: list[int] = []

    def free() -> None:
        while not stopped.is_set():
            recorded = allocated(4)
            recorded.record_stream(stream)
            del recorded
            freed.append(1)

    thread = threading.Thread(target=free)
    sys.setswitchinterval(1e-5)  # so that the threads meet in every place
    thread.start()
    try:
        for _ in range(300):
            graph, y = captured(lambda: x + 1, stream=stream)
    finally:
        stopped.set()
        thread.join()
        sys.setswitchinterval(switches)
    replayed(graph)
    assert y.tolist() == [2.0] * 4
    assert freed
