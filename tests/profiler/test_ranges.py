"""Ranges: those of a program, and one for every operator."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch.profiler import profile

from tests.profiler.traces import BOTH, Trace
from torch_openreg.openreg.profiler import emit_ranges, mark, range_pop, range_push


def ranges_of(work: Callable[[], object]) -> list[dict[str, object]]:
    """The ranges of a thread that the profile does not follow."""
    with profile(activities=BOTH) as recorded:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return Trace(recorded).of("privateuse1_driver")


@pytest.mark.needs("activity")
def test_ranges_nest_and_marks_are_points() -> None:
    def work() -> None:
        range_push("outer")
        range_push("inner")
        mark("here")
        range_pop()
        range_pop()

    outer, inner, here = ranges_of(work)
    assert [event["name"] for event in (outer, inner, here)] == ["outer", "inner", "here"]
    assert outer["ts"] <= inner["ts"] <= here["ts"]
    assert here["ts"] + here["dur"] <= inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    assert len({(event["pid"], event["tid"]) for event in (outer, inner, here)}) == 1


@pytest.mark.needs("activity")
def test_every_operator_is_a_range() -> None:
    def work() -> None:
        x = torch.ones(2, 2, device="openreg", requires_grad=True)
        with emit_ranges(record_shapes=True):
            (x * x).sum().backward()
        x - 1

    names = [str(event["name"]) for event in ranges_of(work)]
    forward = next(name for name in names if name.startswith("aten::mul, seq = "))
    number = forward.split("seq = ")[1].split(",")[0]
    assert forward.endswith("sizes = [[2, 2], [2, 2]]")
    assert any(name.startswith(f"MulBackward0, seq = {number},") for name in names), names
    assert not any(name.startswith("aten::sub") for name in names)


@pytest.mark.needs("activity")
def test_without_shapes_the_names_are_short() -> None:
    def work() -> None:
        with emit_ranges(), torch.no_grad():
            torch.ones(2, device="openreg").abs()

    names = [event["name"] for event in ranges_of(work)]
    assert "aten::abs" in names


def test_where_nobody_records_ranges_are_balanced_and_forgotten() -> None:
    range_push("nobody sees it")
    mark("nor this")
    range_pop()
    with pytest.raises(RuntimeError, match="openreg: no range is open on this thread; each pop closes one push"):
        range_pop()
    with emit_ranges():
        torch.ones(2, device="openreg") + 1
    with pytest.raises(RuntimeError, match="no range is open"):
        range_pop()


@pytest.mark.needs("activity")
def test_a_range_that_began_before_the_profile_is_not_in_it() -> None:
    begun, started = threading.Event(), threading.Event()

    def work() -> None:
        range_push("before")
        begun.set()
        started.wait()
        range_push("after")
        range_pop()
        range_pop()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    with profile(activities=BOTH) as recorded:
        started.set()
        thread.join()
    assert Trace(recorded).names("privateuse1_driver") == ["after"]


def test_a_thread_has_one_profiler() -> None:
    with profile(activities=BOTH), pytest.raises(RuntimeError, match="already enabled on this thread"), emit_ranges():
        pass
    with emit_ranges(), pytest.raises(RuntimeError, match="already enabled"), emit_ranges():
        pass
