from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import pytest
import torch

from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE
from tests.runtime.busy import destroy_driver_stream, new_driver_stream

# An operator that falls back waits for all streams before and after, and so races with nothing.
pytestmark = pytest.mark.needs("host kernels", "queue")
RaceError = torch.openreg.RaceError


def streams(device: str = "openreg:0") -> tuple[torch.Stream, torch.Stream]:
    return torch.Stream(device), torch.Stream(device)


def zeros(*shape: int, device: str = "openreg:0") -> torch.Tensor:
    made = torch.zeros(*shape, device=device)
    torch.accelerator.synchronize(made.device.index)
    return made


def write_then_read(order: Callable[[torch.Stream, torch.Stream], object]) -> None:
    first, second = streams()
    x = zeros(3)
    with torch.openreg.detect_races():
        with first:
            x.add_(1)
        order(first, second)
        with second:
            x.sum()


ORDERS: dict[str, Callable[[torch.Stream, torch.Stream], object]] = {
    "wait_stream": lambda first, second: second.wait_stream(first),
    "an event": lambda first, second: second.wait_event(first.record_event()),
    "an event that the host waits for": lambda first, _: first.record_event().synchronize(),
    "the stream": lambda first, _: first.synchronize(),
    "the device": lambda first, _: torch.accelerator.synchronize(0),
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_prevents_a_race(name: str) -> None:
    write_then_read(ORDERS[name])


def test_a_query_that_says_finished_orders_as_a_wait_does() -> None:
    def until_passed(first: torch.Stream, _: torch.Stream) -> None:
        event = first.record_event()
        while not event.query():
            pass

    def until_idle(first: torch.Stream, _: torch.Stream) -> None:
        while not first.query():
            pass

    write_then_read(until_passed)
    write_then_read(until_idle)


def test_a_stream_that_was_destroyed_has_finished() -> None:
    last = torch.device(LAST_DEVICE).index
    x, y = zeros(3, device=LAST_DEVICE), zeros(3, device=LAST_DEVICE)
    handles = new_driver_stream(last), new_driver_stream(last)
    first, second = (torch.openreg.get_stream_from_external(handle) for handle in handles)
    third = torch.Stream(LAST_DEVICE)
    with torch.openreg.detect_races():
        with first:
            x.add_(1)
        second.wait_stream(first)
        with second:
            y.add_(1)
        destroy_driver_stream(handles[1])
        with third:
            y.add_(1)
            x.add_(1)  # the destroyed stream had waited for the other one
        torch.accelerator.synchronize(LAST_DEVICE)
        with first:
            y.add_(x)
    destroy_driver_stream(handles[0])


@pytest.mark.parametrize(
    "order",
    [
        lambda first, second: None,
        lambda first, second: first.wait_stream(second),
        lambda first, second: second.record_event().synchronize(),
        pytest.param(
            lambda first, second: torch.accelerator.synchronize(LAST_DEVICE),
            marks=pytest.mark.needs("two devices"),
        ),
    ],
)
def test_another_order_does_not(order: Callable[[torch.Stream, torch.Stream], object]) -> None:
    with pytest.raises(RaceError, match="reads argument 'self'"):
        write_then_read(order)


def test_the_report_names_operators_streams_bytes_and_both_lines() -> None:
    first, second = streams()
    x = zeros(4)

    def write_here() -> None:
        with first:
            x.add_(1)

    def read_here() -> None:
        with second:
            x[1:3].sum()

    with torch.openreg.detect_races():
        write_here()
        with pytest.raises(RaceError) as raised:
            read_here()
    text = str(raised.value)
    begin = x.data_ptr() + 4
    assert f"a race about 8 bytes at {begin:#x}" in text
    assert f"aten::sum reads argument 'self' [2] on stream {second.stream_id} of openreg:0" in text
    assert f"aten::add_ writes argument 'self' [4] on stream {first.stream_id} of openreg:0" in text
    assert text.index("in read_here") < text.index("in write_here")
    assert "x[1:3].sum()" in text
    assert "x.add_(1)" in text
    assert "wait_stream" in text


@pytest.mark.parametrize(
    ("first_use", "second_use", "races"),
    [
        (lambda x: x.sum(), lambda x: x.abs(), False),
        (lambda x: x.sum(), lambda x: x.add_(1), True),
        (lambda x: x.add_(1), lambda x: x.mul_(2), True),
        (lambda x: x[:2].add_(1), lambda x: x[2:].add_(1), False),
        (lambda x: x[:, 0].add_(1), lambda x: x[:, 1:].add_(1), False),
        (lambda x: x[:, 0].add_(1), lambda x: x[:, :2].add_(1), True),
        (lambda x: x.view(-1), lambda x: x.add_(1), False),
        (lambda x: torch.empty_like(x), lambda x: x.add_(1), False),
        (lambda x: torch.abs(x, out=zeros(4, 4)), lambda x: x.add_(1), True),
        (lambda x: torch._foreach_add_([x], 1), lambda x: x.sum(), True),
    ],
)
def test_only_bytes_that_one_of_two_writes_can_race(
    first_use: Callable[[torch.Tensor], object], second_use: Callable[[torch.Tensor], object], races: bool
) -> None:
    first, second = streams()
    x = zeros(4, 4)
    with torch.openreg.detect_races():
        with first:
            kept = first_use(x)
        with second:
            if races:
                with pytest.raises(RaceError):
                    second_use(x)
            else:
                second_use(x)
    del kept


def test_the_statistics_of_a_batch_norm_are_written_in_training() -> None:
    def normalize(training: bool) -> None:
        torch.nn.functional.batch_norm(x, mean, variance, training=training)

    def gather() -> None:
        torch.batch_norm_gather_stats_with_counts(x, x, x, mean, variance, 0.1, 1e-5, counts)

    x, mean, variance, counts = zeros(4, 8), zeros(8), zeros(8), zeros(4)
    learn, evaluate = partial(normalize, training=True), partial(normalize, training=False)
    for one, other, races in ((learn, learn, True), (evaluate, learn, True), (evaluate, evaluate, False),
                              (evaluate, gather, True), (gather, evaluate, True)):  # fmt: skip
        torch.accelerator.synchronize(0)
        first, second = streams()
        with torch.openreg.detect_races(), torch.no_grad():
            with first:
                one()
            with second, pytest.raises(RaceError, match="'running_mean'") if races else nullcontext():
                other()


def test_operators_that_take_functions_run() -> None:
    x = zeros(2)
    with torch.openreg.detect_races():
        x.sum()
        result = torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (x,))
        with torch.Stream("openreg:0"), pytest.raises(RaceError):
            x.add_(1)  # which x.sum() reads: what is outside of the functions is checked
    assert result.tolist() == [1, 1]


def test_nothing_runs_that_would_race() -> None:
    first, second = streams()
    x = zeros(3)
    with torch.openreg.detect_races():
        with first:
            x.sum()
        with second, pytest.raises(RaceError):
            x.add_(1)
    torch.accelerator.synchronize()
    assert x.tolist() == [0.0, 0.0, 0.0]


def used_on_side(told: bool) -> None:
    side = torch.Stream("openreg:0")
    gc.collect()  # so that no garbage of an earlier test frees a block that would be reused in the place of this one
    with torch.openreg.detect_races():
        x = torch.ones(1000, device="openreg:0")
        side.wait_stream(torch.accelerator.current_stream(0))
        with side:
            x.sum()
        if told:
            x.record_stream(side)
        del x
        gc.collect()
        torch.ones(1000, device="openreg:0")


@pytest.mark.long
def test_memory_that_is_reused_too_early_is_a_race() -> None:
    with pytest.raises(RaceError, match="the memory was freed in between: call record_stream"):
        used_on_side(told=False)
    used_on_side(told=True)


def test_the_host_must_wait_for_a_copy_that_is_queued() -> None:
    x = zeros(3)
    with torch.openreg.detect_races():
        copied = x.to("cpu", non_blocking=True)
        with pytest.raises(RaceError, match="on the host"):
            copied.sum()
        torch.accelerator.current_stream().synchronize()
        copied.sum()
        source = torch.ones(3).pin_memory()
        x.copy_(source, non_blocking=True)
        with pytest.raises(RaceError, match=r"aten::add_ writes argument 'self' \[3\] on the host"):
            source.add_(1)
        torch.accelerator.synchronize(0)
        source.add_(1)
        x.to("cpu").sum()


@pytest.mark.needs("two devices")
def test_a_copy_between_devices_orders_both_streams() -> None:
    near, far = zeros(3), zeros(3, device="openreg:1")
    with torch.openreg.detect_races():
        near.add_(1)
        far.copy_(near)
        far.add_(1)
        near.add_(1)
        near.to("openreg:1").add_(far)
        with torch.Stream("openreg:1"), pytest.raises(RaceError):
            far.add_(1)


def test_derivatives_are_checked_and_training_has_no_race() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).to("openreg")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    side = torch.Stream("openreg:0")
    x = zeros(2, 4)
    with torch.openreg.detect_races():
        for _ in range(2):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        side.wait_stream(torch.accelerator.current_stream(0))
        with side:
            loss = model(x).sum()
        loss.backward()
        optimizer.step()
        # Nothing orders the step, which runs on the default stream, before this.
        with side, pytest.raises(RaceError, match="on stream"):
            next(model.parameters()).sum()


def test_an_exception_that_ends_the_life_of_tensors_and_events_is_kept() -> None:
    def fail() -> None:
        x, pinned = torch.ones(3, device="openreg:0"), torch.ones(3).pin_memory()
        x.copy_(pinned, non_blocking=True)
        event = torch.accelerator.current_stream(0).record_event()
        raise ValueError(f"{x.shape} {pinned.shape} {event.device}")

    with torch.openreg.detect_races():
        for _ in range(3):
            with pytest.raises(ValueError, match="openreg"):
                fail()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="openreg").pin_memory()


def test_outside_of_the_block_nothing_is_checked() -> None:
    write_then_read(ORDERS["the stream"])
    first, second = streams()
    x = zeros(3)
    with first:
        x.add_(1)
    with second:
        x.add_(1)
    torch.accelerator.synchronize()


def test_the_variable_watches_the_whole_program(run_process: RunProcess) -> None:
    program = """
        import torch
        first, second = torch.Stream("openreg"), torch.Stream("openreg")
        with first:
            x = torch.ones(3, device="openreg")
        with second:
            x.add_(1)
        """
    assert run_process(program).stderr == ""
    done = run_process(program, status=1, OPENREG_RACES="1")
    assert "RaceError: openreg: a race about 12 bytes" in done.stderr
    assert "x.add_(1)" in done.stderr or 'File "<string>", line' in done.stderr


def test_another_value_of_the_variable_is_refused(run_process: RunProcess) -> None:
    done = run_process("import torch_openreg", status=1, OPENREG_RACES="yes", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "ImportError: torch_openreg: OPENREG_RACES is '0' or '1', got 'yes'" in done.stderr
    done = run_process("import torch; torch.ones(1, device='openreg')", status=1, OPENREG_RACES="yes")
    assert "The openreg backend was not loaded: ImportError: torch_openreg: OPENREG_RACES is" in done.stderr
    assert "RuntimeError: Expected one of cpu, " in done.stderr  # nothing of the backend is there


@pytest.mark.needs("sharing")
def test_events_of_several_processes_order_streams() -> None:
    first, second = streams()
    event = torch.openreg.InterprocessEvent()
    x = zeros(3)
    with torch.openreg.detect_races():
        with first:
            x.add_(1)
        event.record(first)
        event.wait(second)
        with second:
            x.add_(1)
