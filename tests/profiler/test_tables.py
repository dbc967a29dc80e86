"""Times on the device in the tables of a profile."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import profile, record_function

from tests.conftest import RunProcess
from tests.profiler.traces import BOTH, Trace, sum_of

pytestmark = pytest.mark.needs("activity")


@pytest.mark.needs("queue")
def test_times_sum_to_what_events_measure() -> None:
    start, end = (torch.Event("openreg", enable_timing=True) for _ in range(2))
    with profile(activities=BOTH) as recorded:
        start.record()
        for _ in range(5):
            torch.openreg._sleep(10_000_000)
        end.record()
    measured = start.elapsed_time(end) * 1000
    # Between two kernels the stream may wait for a processor, so the events may measure more, but never less.
    assert 50_000 <= sum_of(recorded) <= measured


def test_the_time_of_an_operator_is_that_of_its_kernels() -> None:
    x = torch.rand(256, 256, device="openreg")
    with profile(activities=BOTH) as recorded, torch.no_grad():
        for _ in range(3):
            x @ x
            x + x
    trace = Trace(recorded)
    rows = {row.key: row for row in recorded.key_averages()}
    for name in ("aten::mm", "aten::add"):
        kernels = [event for event in trace.on_device() if trace.operator_of(event) == name]
        assert len(kernels) >= 3
        assert rows[name].count == 3
        assert rows[name].self_device_time_total == pytest.approx(sum(kernel["dur"] for kernel in kernels), rel=0.01)
    assert rows["aten::matmul"].self_device_time_total == 0
    assert rows["aten::matmul"].device_time_total == rows["aten::mm"].device_time_total > 0
    table = recorded.key_averages().table(sort_by="self_device_time_total", row_limit=3)
    assert "Self OPENREG" in table
    assert "NaN" not in table


@pytest.mark.needs("host kernels")
def test_a_call_outside_operators_has_no_time_on_the_device(run_process: RunProcess) -> None:
    # In a fresh process the first operators and the first calls would have the same numbers, if both began with 1.
    code = """
        import torch
        from torch.profiler import profile
        x = torch.ones(1 << 16, device="openreg")
        torch.accelerator.synchronize()
        with profile() as recorded:
            for _ in range(10):
                torch.accelerator.synchronize()
            for _ in range(10):
                x.exp_()
        times = {row.key: row.self_device_time_total for row in recorded.key_averages()}
        print({name: time for name, time in times.items() if name.startswith("or") and time != 0})
        print("orDeviceSynchronize" in times, times["aten::exp_"] == times["exp"] > 0)
        """
    result = run_process(code, KINETO_LOG_LEVEL="99")
    assert result.stdout == "{}\nTrue True\n", result.stderr


def test_a_range_has_the_time_of_what_it_launched() -> None:
    with profile(activities=BOTH) as recorded, record_function("nap"):
        torch.openreg._sleep(20_000_000)
    host = [
        row for row in recorded.key_averages() if row.key == "nap" and row.device_type == torch.autograd.DeviceType.CPU
    ]
    assert host[0].device_time_total >= 20_000


def test_the_python_line_of_a_kernel() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 3  # the line

    x = torch.rand(16, device="openreg")
    with profile(activities=BOTH, with_stack=True, experimental_config=_verbose()) as recorded:
        forward(x)
    trace = Trace(recorded)
    (kernel,) = trace.of("kernel")
    (operator,) = [
        event for event in trace.of("cpu_op") if event["args"]["External id"] == kernel["args"]["External id"]
    ]
    middle = operator["ts"] + operator["dur"] / 2
    around = [
        event["name"] for event in trace.of("python_function") if event["ts"] <= middle <= event["ts"] + event["dur"]
    ]
    assert any("test_tables.py" in name and "forward" in name for name in around), around
    grouped = recorded.key_averages(group_by_stack_n=8)
    by_stack = {"\n".join(row.stack): row.self_device_time_total for row in grouped if row.key == "aten::mul"}
    assert any("forward" in stack and time > 0 for stack, time in by_stack.items()), by_stack


def _verbose() -> torch._C._profiler._ExperimentalConfig:
    return torch._C._profiler._ExperimentalConfig(verbose=True)


@pytest.mark.filterwarnings("ignore:with_modules is deprecated")  # since 2.14
def test_shapes_and_modules_stay_with_their_kernels() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)).to("openreg")
    x = torch.rand(3, 4, device="openreg")
    with profile(activities=BOTH, record_shapes=True, with_modules=True, with_flops=True) as recorded:
        model(x)
    rows = [row for row in recorded.key_averages(group_by_input_shape=True) if row.key == "aten::addmm"]
    assert sorted(row.input_shapes[1] for row in rows) == [[3, 4], [3, 8]]
    assert all(row.self_device_time_total > 0 and row.flops > 0 for row in rows)


def test_every_kernel_of_the_backward_pass_has_an_operator() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("openreg")
    x = torch.rand(3, 4, device="openreg")
    model(x).sum().backward()
    with profile(activities=BOTH) as recorded:
        model(x).sum().backward()
    trace = Trace(recorded)
    threads = {event["tid"] for event in trace.of("cpu_op")}
    assert len(threads) == 2, "autograd has a thread of its own for the device"
    assert {trace.operator_of(event) for event in trace.on_device()} >= {"aten::addmm", "aten::mm"}
    assert None not in {trace.operator_of(event) for event in trace.on_device()}
    backward = [row for row in recorded.key_averages() if row.key.endswith("AddmmBackward0")]
    assert sum(row.device_time_total for row in backward) > 0


def test_memory_and_time_in_one_profile() -> None:
    with profile(activities=BOTH, profile_memory=True) as recorded:
        torch.ones(1 << 20, device="openreg")
    rows = {row.key: row for row in recorded.key_averages()}
    assert rows["aten::empty"].self_device_memory_usage == 4 << 20
    assert sum_of(recorded) > 0
