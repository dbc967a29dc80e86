from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.cuda import _memory_viz

from tests.conftest import RunProcess
from tests.runtime.busy import sleep_on

MIB = 1 << 20


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    gc.collect()
    torch.accelerator.empty_cache()
    yield
    torch.openreg.memory._record_memory_history(None)


def record(**settings: Any) -> None:
    torch.openreg.memory._record_memory_history(**{"stacks": "python", "clear_history": True, **settings})


def snapshot() -> dict[str, Any]:
    taken: dict[str, Any] = torch.openreg.memory._snapshot()
    return taken


def entries(device: int = 0) -> list[dict[str, Any]]:
    trace: list[dict[str, Any]] = snapshot()["device_traces"][device]
    return trace


def bytes_of(size: int, device: str = "openreg:0") -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def allocate_here(size: int) -> torch.Tensor:
    return bytes_of(size)


def names(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["name"] for frame in frames]


def test_entries_follow_each_other_with_addresses_sizes_and_streams() -> None:
    record()
    x = bytes_of(3 * MIB + 1)
    address = x.data_ptr()
    del x
    torch.accelerator.empty_cache()
    seen = [(entry["action"], entry["size"]) for entry in entries()]
    assert seen == [
        ("segment_alloc", 20 * MIB),
        ("alloc", 3 * MIB + 1),
        ("free_requested", 3 * MIB + 1),
        ("free_completed", 3 * MIB + 1),
        ("segment_free", 20 * MIB),
        ("snapshot", torch.accelerator.memory_allocated(0)),
    ]
    assert {entry["addr"] for entry in entries()[:5]} == {address}
    assert {entry["stream"] for entry in entries()[:5]} == {torch.openreg.default_stream(0).native_handle}
    times = [entry["time_us"] for entry in entries()]
    assert times == sorted(times)
    assert times[0] > 1_700_000_000_000_000


def test_stacks_name_the_function_that_allocated_and_the_one_that_freed() -> None:
    record()
    x = allocate_here(11 * MIB)  # larger than any free block that other tests may have left

    def drop_here(held: list[torch.Tensor]) -> None:
        held.clear()

    held = [x]
    del x
    taken = snapshot()
    blocks = [
        block
        for segment in taken["segments"]
        for block in segment["blocks"]
        if "allocate_here" in names(block["frames"])
    ]
    assert [(block["requested_size"], block["state"]) for block in blocks] == [(11 * MIB, "active_allocated")]
    frame = next(frame for frame in blocks[0]["frames"] if frame["name"] == "allocate_here")
    assert frame["filename"] == __file__
    assert frame["line"] == allocate_here.__code__.co_firstlineno + 1
    assert any("allocate_here" in names(segment["frames"]) for segment in taken["segments"])
    drop_here(held)
    freed = [entry for entry in entries() if entry["action"].startswith("free")]
    assert ["drop_here" in names(entry["frames"]) for entry in freed] == [True, True]


@pytest.mark.parametrize(
    ("settings", "in_use", "allocations", "frees"),
    [
        ({"context": "all"}, True, True, True),
        ({"context": "alloc"}, True, True, False),
        ({"context": "state"}, True, False, False),
        ({"context": None}, False, False, False),
        ({"enabled": "state", "context": "all"}, True, None, None),
    ],
)
def test_context_says_which_stacks_are_kept(
    settings: dict[str, Any], in_use: bool, allocations: bool | None, frees: bool | None
) -> None:
    record(**settings)
    kept, dropped = allocate_here(1000), allocate_here(2000)
    address = kept.data_ptr()
    del dropped
    taken = snapshot()
    (block,) = (b for s in taken["segments"] for b in s["blocks"] if b["address"] == address)
    assert bool(block["frames"]) == in_use
    trace = taken["device_traces"][0]
    assert bool(trace) == (allocations is not None)
    assert all(bool(e["frames"]) == allocations for e in trace if e["action"] == "alloc")
    assert all(bool(e["frames"]) == frees for e in trace if e["action"].startswith("free"))


def test_stacks_of_c_are_there_when_asked_for() -> None:
    record(stacks="all")
    x = allocate_here(1000)
    frames = next(e["frames"] for e in entries() if e["action"] == "alloc")
    assert "allocate_here" in names(frames)
    assert any("empty" in name for name in names(frames) if name != "allocate_here")
    del x


def test_only_the_latest_entries_are_kept_in_their_order() -> None:
    record(max_entries=4)
    for size in (1000, 2000, 3000):
        del_me = bytes_of(size)
        del del_me
    assert [(e["action"], e["size"]) for e in entries()[:3]] == [
        ("alloc", 3000),
        ("free_requested", 3000),
        ("free_completed", 3000),
    ]
    assert len(entries()) == 4
    record(max_entries=2, clear_history=False)
    assert [e["action"] for e in entries()] == ["snapshot", "snapshot"]
    record(max_entries=2)
    assert [e["action"] for e in entries()] == ["snapshot"]


def test_a_recorded_stream_delays_the_completion() -> None:
    record()
    side = torch.Stream("openreg")
    x = bytes_of(1000)
    sleep_on(side, 100)
    x.record_stream(side)
    del x
    assert [e["action"] for e in entries()][-2:] == ["free_requested", "snapshot"]
    side.synchronize()
    bytes_of(1)
    completed = [e for e in entries() if e["action"] == "free_completed"]
    assert [e["size"] for e in completed] == [1000, 1]


def test_out_of_memory_is_an_entry_with_what_was_free() -> None:
    record()
    free, _ = torch.accelerator.get_memory_info(0)
    with pytest.raises(torch.OutOfMemoryError):
        allocate_here(1 << 45)
    (entry,) = (e for e in entries() if e["action"] == "oom")
    assert (entry["size"], entry["device_free"]) == (1 << 45, free)
    assert "addr" not in entry
    assert "allocate_here" in names(entry["frames"])


@pytest.mark.needs("two devices")
def test_devices_have_traces_of_their_own() -> None:
    record()
    x = bytes_of(1000, "openreg:1")
    taken = snapshot()
    assert [e["action"] for e in taken["device_traces"][0]] == ["snapshot"]
    assert [e["size"] for e in taken["device_traces"][1] if e["action"] == "alloc"] == [1000]
    assert x.data_ptr() in [b["address"] for s in taken["segments"] if s["device"] == 1 for b in s["blocks"]]


@pytest.mark.needs("graphs", "kernels")
def test_entries_of_a_capture_name_its_pool() -> None:
    x = bytes_of(24 * MIB)
    torch.accelerator.synchronize(0)
    record()
    graph = torch.accelerator.Graph()
    with torch.Stream("openreg:0"), graph:
        y = x + 1
        del y
    z = bytes_of(24 * MIB)
    pools = [(entry["action"], tuple(entry["pool_id"])) for entry in entries() if entry.get("size") == 24 * MIB]
    own = tuple(graph.pool())
    assert pools[:4] == [(each, own) for each in ("segment_alloc", "alloc", "free_requested", "free_completed")]
    assert pools[4:] == [(each, (0, 0)) for each in ("segment_alloc", "alloc")]
    del z


def test_recording_ends_and_forgets() -> None:
    record()
    x = allocate_here(1000)
    torch.openreg.memory._record_memory_history(None)
    taken = snapshot()
    assert taken["device_traces"] == [[] for _ in range(torch.accelerator.device_count())]
    assert not any(b["frames"] for s in taken["segments"] for b in s["blocks"])
    record()
    del x  # allocated before the recording: the size of its block
    assert [(e["action"], e["size"]) for e in entries()[:2]] == [("free_requested", 1000), ("free_completed", 1024)]


@pytest.mark.parametrize("skipped", [["free_requested", "snapshot"], ["alloc"], []])
def test_actions_can_be_left_out(skipped: list[str]) -> None:
    record(skip_actions=skipped)
    x = bytes_of(1000)
    del x
    actions = ["alloc", "free_requested", "free_completed", "snapshot"]
    found = [entry["action"] for entry in entries() if entry["action"] in actions]
    assert found == [action for action in actions if action not in skipped]


def test_frames_of_generated_code_name_the_lines_of_the_model() -> None:
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(4, 4))).to("openreg")
    record()
    kept = traced(torch.ones(2, 4, device="openreg"))
    taken = torch.openreg.memory._snapshot(augment_with_fx_traces=True)
    frames = [frame for entry in taken["device_traces"][0] for frame in entry["frames"]]
    assert any(frame["name"] == "forward" for frame in frames), kept
    assert taken["device_traces"][0][-1]["action"] == "snapshot"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"enabled": "on"}, "enabled is one of None, 'state', 'all', got 'on'"),
        ({"context": "none"}, "context is one of None, 'state', 'alloc', 'all', got 'none'"),
        ({"stacks": "c"}, "stacks is one of 'python', 'all', got 'c'"),
        ({"max_entries": 0}, "max_entries is 1 or more, got 0"),
        ({"skip_actions": ["oom", "x"]}, "skip_actions are of alloc, .*, got x"),
    ],
)
def test_other_values_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"openreg: {text}"):
        record(**settings)


def test_the_viewer_of_pytorch_reads_a_snapshot(tmp_path: Path) -> None:
    record()
    before = snapshot()
    kept = [allocate_here(size) for size in (1000, 3 * MIB, 24 * MIB)]
    del kept[1]
    torch.openreg.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    after = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())

    assert "total_allocated: 24.0MiB" in _memory_viz.segsum(after)
    text = _memory_viz.trace(after)
    assert "= cudaMalloc(" in text
    assert text.count("del ") == 1
    by_line = _memory_viz.memory(after, format_flamegraph=str)
    assert "bytes_of 25165824" in by_line
    assert ":allocate_here;" in by_line
    assert "active_allocated" in _memory_viz.segments(after, format_flamegraph=str)
    changed = _memory_viz.compare(before["segments"], after["segments"], format_flamegraph=str)
    assert "only_after" in changed
    for html in (
        _memory_viz.trace_plot(after),
        _memory_viz.trace_plot(after, plot_segments=True),
        _memory_viz.trace_plot(after, filter_freed=True),
        _memory_viz.segment_plot(after),
    ):
        assert "add_local_files(local_files" in html


def test_threads_record_at_once() -> None:
    record(max_entries=1000)

    def work() -> None:
        for _ in range(200):
            allocate_here(1000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        snapshot()
    for thread in threads:
        thread.join()
    trace = entries()
    assert len(trace) == 1000
    assert all(e["frames"] for e in trace if e["action"] == "alloc")
    live = 0
    for entry in trace[next(i for i, e in enumerate(trace) if e["action"] == "alloc") :]:
        live += {"alloc": 1, "free_completed": -1}.get(entry["action"], 0)
    assert abs(live) <= 4  # at most one tensor of each thread is alive where the ring buffer begins


def test_derivatives_are_recorded_on_their_thread() -> None:
    x = torch.rand(1000, device="openreg", requires_grad=True)
    y = (x * x).sum()
    record()
    y.backward()
    assert any(e["action"] == "alloc" and e["size"] == 4000 for e in entries())
    assert x.grad is not None


@pytest.mark.needs("simulator")
def test_a_forked_child_frees_without_recording(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, torch
        torch.openreg.memory._record_memory_history(stacks="python")
        x = torch.ones(4, device="openreg")
        if (child := os.fork()) == 0:
            del x
            try:
                torch.openreg.memory._snapshot()
            except RuntimeError as error:
                assert "forked subprocess" in str(error), error
                torch.openreg.memory._record_memory_history(None)
                os._exit(7)
            os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert (done.stdout, done.stderr) == ("7\n", "")


def test_stopping_what_never_began_starts_no_driver(run_process: RunProcess) -> None:
    done = run_process(
        "import torch; torch.openreg.memory._record_memory_history(None); print(torch.openreg.is_initialized())"
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_the_memory_profiler_writes_a_timeline_of_the_device(tmp_path: Path) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(
        activities=activities, profile_memory=True, record_shapes=True, with_stack=True
    ) as profiled:
        x = torch.rand(MIB, device="openreg")
        y = x + x
    del x, y
    path = tmp_path / "timeline.json"
    with pytest.warns(FutureWarning, match="export_memory_timeline"):
        profiled.export_memory_timeline(str(path), device="openreg:0")
    import json

    times, sizes = json.loads(path.read_text())
    assert len(times) == len(sizes) > 0
    assert max(sum(each) for each in sizes) >= 8 * MIB
