"""A profile contains what was requested, and no more."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, supported_activities

from tests.profiler.traces import BOTH, CPU, DEVICE, ON_DEVICE, Trace, sum_of

pytestmark = pytest.mark.needs("activity")
RUNTIME = "privateuse1_runtime"


def work() -> None:
    x = torch.rand(16).to("openreg")
    (x + x).cpu()


def test_the_activity_is_named_after_the_device() -> None:
    assert ProfilerActivity.OPENREG == DEVICE
    assert DEVICE in supported_activities()


def test_a_profile_of_the_host_has_nothing_of_the_device() -> None:
    with profile(activities=[CPU]) as recorded:
        work()
    trace = Trace(recorded)
    assert "aten::add" in trace.names("cpu_op")
    assert trace.of(*ON_DEVICE, RUNTIME, "gpu_user_annotation") == []
    assert sum_of(recorded) == 0


def test_a_profile_of_the_device_alone() -> None:
    with profile(activities=[DEVICE]) as recorded:
        work()
    trace = Trace(recorded)
    assert trace.of("cpu_op") == []
    assert len(trace.on_device()) >= 3
    assert trace.calls("orMemcpyAsync")
    assert set(trace.arrows("f")) == {event["args"]["correlation"] for event in trace.on_device()}
    assert sum_of(recorded) > 0


def test_without_arguments_both() -> None:
    with profile() as recorded:
        work()
    assert Trace(recorded).on_device()


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["CONCURRENT_KERNEL"], {"kernel"}),
        (["GPU_MEMCPY"], {"gpu_memcpy"}),
        (["GPU_MEMCPY", "PRIVATEUSE1_RUNTIME"], {"gpu_memcpy", RUNTIME}),
        (["GPU_MEMSET"], set()),
        ([], set()),
    ],
)
def test_kinds_of_activity_can_be_chosen(types: list[str], expected: set[str]) -> None:
    with profile(activities=[{DEVICE: types}]) as recorded:
        work()
    assert _kinds(recorded) == expected
    with profile(activities=[CPU, {DEVICE: types}]) as recorded:
        work()
    # Driver calls are among the types of the host, too.
    assert _kinds(recorded) == (expected | {RUNTIME} if types else set())


def _kinds(recorded: profile) -> set[str]:
    return {event["cat"] for event in Trace(recorded).of(*ON_DEVICE, RUNTIME, "gpu_user_annotation")}


def test_without_correlation_kernels_have_no_operator() -> None:
    config = _ExperimentalConfig(disable_external_correlation=True)
    with profile(activities=BOTH, experimental_config=config) as recorded:
        work()
    trace = Trace(recorded)
    assert {trace.operator_of(event) for event in trace.on_device()} == {None}
    assert set(trace.arrows("f")) == {event["args"]["correlation"] for event in trace.on_device()}


def test_metadata_reaches_the_events() -> None:
    config = _ExperimentalConfig(expose_kineto_event_metadata=True)
    with profile(activities=BOTH, experimental_config=config) as recorded:
        work()
    copies = [event for event in recorded.events() if event.name.startswith("Memcpy HtoD")]
    metadata = copies[0].event_metadata
    assert (metadata.bytes, metadata.stream) == (64, 0)
    assert metadata.bandwidth_gb_s > 0


def test_only_the_trace() -> None:
    with profile(activities=BOTH, experimental_config=_ExperimentalConfig(trace_only=True)) as recorded:
        work()
    assert Trace(recorded).on_device()


def test_what_found_no_room_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.rand(16, device="openreg")
    config = _ExperimentalConfig(custom_profiler_config='{"records": 100}')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with profile(activities=BOTH, experimental_config=config) as recorded:
            for _ in range(200):
                x + x
    trace = Trace(recorded)
    kept = len(trace.on_device()) + len(trace.calls())
    said = capfd.readouterr().err + "".join(str(warning.message) for warning in caught)
    assert kept == 100
    dropped = int(said.partition("this profile lacks ")[2].split()[0])
    assert dropped >= 300
    assert "it keeps 100; profile fewer steps, or set custom_profiler_config" in said


@pytest.mark.parametrize("config", ['{"record": 100}', '{"records": -5}', '{"records": "x", "y": 3}', "records"])
def test_a_configuration_without_a_number_of_records_is_said(config: str, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with profile(
            activities=BOTH, experimental_config=_ExperimentalConfig(custom_profiler_config=config)
        ) as recorded:
            work()
    said = capfd.readouterr().err + "".join(str(warning.message) for warning in caught)
    assert f"""write {{"records": 1000}}, got '{config}'; this profile keeps 4194304""" in said
    assert Trace(recorded).on_device()
