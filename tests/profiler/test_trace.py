"""The device's part of a trace: names, rows, arrows, bytes, and the operator of each event."""

from __future__ import annotations

import ctypes
from itertools import pairwise

import pytest
import torch
from torch.profiler import profile, record_function

from tests import offers
from tests.graph.capture import captured_over_both
from tests.offers import LAST_DEVICE
from tests.profiler.traces import BOTH, Trace

pytestmark = pytest.mark.needs("activity")


@pytest.mark.needs("host kernels")
def test_kernels_have_the_names_of_their_operators() -> None:
    a = torch.rand(8, 8, device="openreg")
    with profile(activities=BOTH) as recorded:
        (a + a).abs().sum()
        a @ a
        a.softmax(-1)
    trace = Trace(recorded)
    assert trace.names("kernel") == ["add", "abs", "sum.dim_IntList", "mm", "_softmax"]
    assert [trace.operator_of(kernel) for kernel in trace.of("kernel")] == [
        "aten::add",
        "aten::abs",
        "aten::sum",
        "aten::mm",
        "aten::_softmax",
    ]


def test_copies_have_bytes_direction_and_bandwidth() -> None:
    host = torch.rand(1000)
    with profile(activities=BOTH) as recorded:
        device = host.to("openreg")
        device.clone()
        device.cpu()
        device[3].item()
    trace = Trace(recorded)
    copies = trace.of("gpu_memcpy")
    assert [(copy["name"], copy["args"]["bytes"]) for copy in copies] == [
        ("Memcpy HtoD (Host -> Device)", 4000),
        ("Memcpy DtoD (Device -> Device)", 4000),
        ("Memcpy DtoH (Device -> Host)", 4000),
        ("Memcpy DtoH (Device -> Host)", 4),
    ]
    for copy in copies:
        gigabytes_per_second = copy["args"]["bytes"] / max(copy["dur"] * 1000, 1)
        assert copy["args"]["memory bandwidth (GB/s)"] == pytest.approx(gigabytes_per_second, rel=0.01)
    operators = ["aten::copy_", "aten::copy_", "aten::copy_", "aten::_local_scalar_dense"]
    assert [(trace.operator_of(copy) or "").replace("_copy_from", "copy_") for copy in copies] == operators


def test_a_fill_by_another_library_is_a_memset_without_an_arrow() -> None:
    x = torch.ones(64, device="openreg")
    torch.accelerator.synchronize()
    with profile(activities=BOTH) as recorded, record_function("elsewhere"):
        assert offers.library().orMemset(ctypes.c_void_p(x.data_ptr()), 0, ctypes.c_size_t(256)) == 0
    trace = Trace(recorded)
    (fill,) = trace.of("gpu_memset")
    assert (fill["name"], fill["args"]["bytes"]) == ("Memset (Device)", 256)
    assert trace.operator_of(fill) == "elsewhere"
    assert "correlation" not in fill["args"]
    assert trace.arrows("f") == {}
    assert torch.equal(x.cpu(), torch.zeros(64))


def test_every_arrow_leads_from_a_call_to_what_it_queued() -> None:
    x = torch.rand(16)
    with profile(activities=BOTH) as recorded:
        y = x.to("openreg")
        for _ in range(10):
            y = y + y
        y.cpu()
    trace = Trace(recorded)
    ran = {event["args"]["correlation"]: event for event in trace.on_device()}
    called = {event["args"]["correlation"]: event for event in trace.calls()}
    starts, ends = trace.arrows("s"), trace.arrows("f")
    assert len(ran) == len(trace.on_device()) >= 12
    assert set(starts) == set(ends) == set(ran) <= set(called)
    for number, event in ran.items():
        call = called[number]
        assert call["ts"] <= event["ts"] + 0.001
        assert (ends[number]["pid"], ends[number]["tid"]) == (event["pid"], event["tid"])
        assert (starts[number]["pid"], starts[number]["tid"]) == (call["pid"], call["tid"])
        assert starts[number]["ts"] == call["ts"]
        assert event["args"]["External id"] == call["args"]["External id"]


def test_calls_lie_inside_their_operator_on_its_row() -> None:
    x = torch.rand(16, device="openreg")
    with profile(activities=BOTH) as recorded:
        x + x
    trace = Trace(recorded)
    (operator,) = [event for event in trace.of("cpu_op") if event["name"] == "aten::add"]
    inside = [call for call in trace.calls() if trace.operator_of(call) == "aten::add"]
    assert inside
    for call in inside:
        assert (call["pid"], call["tid"]) == (operator["pid"], operator["tid"])
        # The two clocks agree within a few microseconds.
        assert operator["ts"] - 50 <= call["ts"]
        assert call["ts"] + call["dur"] <= operator["ts"] + operator["dur"] + 50


def test_waits_are_calls_that_last() -> None:
    event = torch.Event("openreg")
    with profile(activities=BOTH) as recorded:
        torch.openreg._sleep(20_000_000)
        torch.accelerator.synchronize()
        torch.openreg._sleep(20_000_000)
        event.record()
        event.synchronize()
        torch.openreg._sleep(20_000_000)
        torch.accelerator.current_stream().synchronize()
        with torch.Stream("openreg"):
            event.wait()
    trace = Trace(recorded)
    for name in ("orDeviceSynchronize", "orEventSynchronize", "orStreamSynchronize"):
        assert max(call["dur"] for call in trace.calls(name)) > (5_000 if offers.OFFERS["queue"][0]() else 0), name
    assert trace.calls("orEventRecord")
    assert trace.calls("orStreamWaitEvent")
    assert trace.names("kernel") == ["sleep"] * 3


def test_memory_from_the_driver_is_a_call() -> None:
    torch.openreg.empty_cache()
    with profile(activities=BOTH) as recorded:
        x = torch.empty(64 << 20, dtype=torch.uint8, device="openreg")
        del x
        torch.openreg.empty_cache()
    trace = Trace(recorded)
    (allocated,), (freed,) = trace.calls("orMalloc"), trace.calls("orFree")
    assert trace.operator_of(allocated) == "aten::empty"
    assert trace.operator_of(freed) is None


@pytest.mark.needs("queue")
def test_each_device_and_each_stream_has_a_row() -> None:
    streams = [torch.Stream("openreg:0"), torch.Stream("openreg:0"), torch.Stream(LAST_DEVICE)]
    with profile(activities=BOTH) as recorded:
        for stream in streams:
            with stream:
                torch.ones(4, device=stream.device) + 1
        torch.ones(4, device=LAST_DEVICE) + 1
    trace = Trace(recorded)
    rows = {(event["pid"], event["tid"]) for event in trace.on_device()}
    named = trace.labels("thread_name")
    processes = {pid: name for (pid, _), name in trace.labels("process_name").items()}
    labels = {pid: label for (pid, _), label in trace.labels("process_labels").items()}
    assert sorted(named[row] for row in rows if row[1] == 0) == ["default stream"]
    assert sorted(named[row].partition("stream_id ")[2] for row in rows if row[1] != 0) == sorted(
        f"{stream.stream_id})" for stream in streams
    )
    for index in {stream.device.index for stream in streams}:
        assert processes[index] == f"openreg:{index}"
        assert labels[index] == torch.openreg.get_device_name(index)
    for event in trace.on_device():
        assert (event["args"]["device"], event["args"]["stream"]) == (event["pid"], event["tid"])
    again = Trace(_profile_on(streams[1]))
    (row,) = {(event["pid"], event["tid"]) for event in again.on_device()}
    assert named[row].endswith(f"(stream_id {streams[1].stream_id})"), "a stream keeps its row"


@pytest.mark.needs("graphs", "host kernels", "two devices")
def test_kernels_of_a_graph_over_two_devices_are_on_streams_of_their_own() -> None:
    # Of different numbers, so that the name of a row tells them apart.
    stream, side = torch.Stream("openreg:0"), torch.Stream("openreg:1")
    while side.stream_id == stream.stream_id:
        side = torch.Stream("openreg:1")
    here, there = torch.ones(4, device="openreg:0"), torch.ones(4, device="openreg:1")
    for index in range(2):
        torch.accelerator.synchronize(index)

    def work() -> torch.Tensor:
        with stream:
            here.exp_()
        return there.abs_()

    graph, _ = captured_over_both(work, stream=stream, side=side)
    with profile(activities=BOTH) as recorded:
        with stream:
            graph.replay()
        stream.synchronize()
    trace = Trace(recorded)
    rows = {event["name"]: (event["pid"], event["tid"]) for event in trace.of("kernel")}
    named = trace.labels("thread_name")
    assert {name: (row[0], named[row].partition("stream_id ")[2]) for name, row in rows.items()} == {
        "exp": (0, f"{stream.stream_id})"),
        "abs": (1, f"{side.stream_id})"),
    }


def _profile_on(stream: torch.Stream) -> profile:
    recorded = profile(activities=BOTH)
    with recorded, stream:
        torch.ones(4, device=stream.device) + 1
    return recorded


def test_nothing_overlaps_on_a_stream() -> None:
    x = torch.rand(64, 64, device="openreg")
    with profile(activities=BOTH) as recorded:
        for _ in range(20):
            x = (x @ x).softmax(-1)
    events = Trace(recorded).on_device()
    assert len(events) >= 40
    for earlier, later in pairwise(events):
        assert earlier["ts"] + earlier["dur"] <= later["ts"] + 0.002


def test_ranges_of_the_program_are_shown_on_the_device() -> None:
    x = torch.rand(16, device="openreg")
    with profile(activities=BOTH) as recorded:
        with record_function("outer"):
            x + x
            with record_function("inner"):
                x * x
                x - x
        x / x
    trace = Trace(recorded)
    annotations = {event["name"]: event for event in trace.of("gpu_user_annotation")}
    assert sorted(annotations) == ["inner", "outer"]
    inner = annotations["inner"]
    begin, end = inner["ts"] - 0.001, inner["ts"] + inner["dur"] + 0.001
    inside = [event for event in trace.of("kernel") if begin <= event["ts"] and event["ts"] + event["dur"] <= end]
    assert [trace.operator_of(kernel) for kernel in inside][-2:] == ["aten::mul", "aten::sub"]
    # Ranges on the device do not count toward an operator: their kernels do.
    total = sum(event["dur"] for event in trace.on_device())
    rows = [row for row in recorded.key_averages() if not row.is_user_annotation]
    of_operators = sum(row.self_device_time_total for row in rows if row.device_type == torch.autograd.DeviceType.CPU)
    assert of_operators == pytest.approx(total, rel=0.02)
    outer = [row for row in recorded.key_averages() if row.key == "outer"]
    assert max(row.device_time_total for row in outer if row.device_type == torch.autograd.DeviceType.CPU) < total


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_both_forms_of_the_file(suffix: str) -> None:
    x = torch.rand(16, device="openreg")
    with profile(activities=BOTH) as recorded:
        x + x
    trace = Trace(recorded, suffix)
    assert len(trace.of("kernel")) == 1
    properties = trace.whole["deviceProperties"]
    assert [device["id"] for device in properties] == list(range(torch.accelerator.device_count()))
    assert properties[0]["name"] == torch.openreg.get_device_name(0)
    assert properties[0]["totalGlobalMem"] == torch.openreg.get_device_properties(0).total_memory


def test_a_view_launches_nothing() -> None:
    x = torch.rand(16, device="openreg")
    with profile(activities=BOTH) as recorded:
        x.view(4, 4).t()
    trace = Trace(recorded)
    assert "aten::view" in trace.names("cpu_op")
    assert trace.on_device() == []
