"""Several profiles, threads and devices; and what ends a profile early."""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import profile, record_function, schedule, tensorboard_trace_handler

from tests import offers
from tests.conftest import RunProcess
from tests.offers import DEVICES
from tests.profiler.traces import BOTH, DEVICE, Trace

pytestmark = pytest.mark.needs("activity")


def test_one_profile_after_another() -> None:
    x = torch.rand(16, device="openreg")
    counts = []
    for steps in (3, 0, 5):
        with profile(activities=BOTH) as recorded:
            for _ in range(steps):
                x * x
        x * x  # in none
        counts.append(Trace(recorded).names("kernel"))
    assert [len(names) for names in counts] == [3, 0, 5]


@pytest.mark.needs("queue")
def test_work_that_runs_after_the_end_belongs_to_its_profile() -> None:
    with profile(activities=BOTH) as recorded:
        for device in range(torch.accelerator.device_count()):
            with torch.openreg.device(device):
                torch.openreg._sleep(30_000_000)
    assert Trace(recorded).names("kernel") == ["sleep"] * torch.accelerator.device_count()


@pytest.mark.needs("queue")
def test_work_from_before_belongs_to_none() -> None:
    torch.openreg._sleep(30_000_000)
    with profile(activities=BOTH) as recorded:
        torch.ones(2, device="openreg") + 1
    assert "sleep" not in Trace(recorded).names("kernel")


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")  # in each cycle, as it should
def test_a_schedule_gives_a_trace_for_each_cycle(tmp_path: Path) -> None:
    traces: list[Trace] = []
    x = torch.rand(16, device="openreg")
    with profile(
        activities=BOTH,
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda recorded: traces.append(Trace(recorded)),
    ) as recorded:
        for _ in range(10):
            x + x
            recorded.step()
    assert [len(trace.of("kernel")) for trace in traces] == [2, 2]
    assert [trace.names("user_annotation") for trace in traces] == [
        ["ProfilerStep#2", "ProfilerStep#3"],
        ["ProfilerStep#6", "ProfilerStep#7"],
    ]
    assert traces[0].names("gpu_user_annotation") == ["ProfilerStep#2", "ProfilerStep#3"]
    with profile(activities=BOTH, on_trace_ready=tensorboard_trace_handler(str(tmp_path), use_gzip=True)):
        x + x
    assert [file.name.endswith(".pt.trace.json.gz") for file in tmp_path.iterdir()] == [True]


def test_a_range_that_outlives_its_profile_is_forgotten() -> None:
    x = torch.rand(16, device="openreg")
    first = profile(activities=BOTH)
    first.start()
    with record_function("left open"):
        first.stop()
        x + x
        with profile(activities=BOTH) as second:
            assert offers.library().orMemset(ctypes.c_void_p(x.data_ptr()), 0, ctypes.c_size_t(4)) == 0
            x + x
    trace = Trace(second)
    assert [trace.operator_of(event) for event in trace.on_device()] == [None, "aten::add"]
    assert "External id" not in trace.of("gpu_memset")[0]["args"]


def test_every_thread_is_recorded() -> None:
    def work(number: int) -> None:
        x = torch.ones(16, device=DEVICES[number % len(DEVICES)])
        for _ in range(200):
            x = x + 1
        assert x.cpu()[0] == 201

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    with profile(activities=BOTH, experimental_config=_ExperimentalConfig(profile_all_threads=True)) as recorded:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = Trace(recorded)
    added = [event for event in trace.on_device() if trace.operators().get(event["args"]["External id"]) == "aten::add"]
    assert len(added) >= 800
    assert {event["pid"] for event in added} == set(range(len(DEVICES)))
    calls = {call["args"]["correlation"]: call for call in trace.calls()}
    for event in added:
        call = calls[event["args"]["correlation"]]
        assert call["args"]["External id"] == event["args"]["External id"]
    assert len({call["tid"] for call in trace.calls()}) >= 4


def test_threads_that_the_profile_does_not_follow_have_no_operators() -> None:
    def work() -> None:
        x = torch.ones(16, device="openreg")
        x + x

    with profile(activities=BOTH) as recorded:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    trace = Trace(recorded)
    assert trace.on_device()
    assert {trace.operator_of(event) for event in trace.on_device()} == {None}
    assert set(trace.arrows("f")) == {event["args"]["correlation"] for event in trace.on_device()}


@pytest.mark.needs("two devices")
def test_a_copy_between_devices() -> None:
    x = torch.rand(100, device="openreg:0")
    with profile(activities=BOTH) as recorded:
        x.to("openreg:1")
    trace = Trace(recorded)
    (copy,) = trace.of("gpu_memcpy")
    assert (copy["name"], copy["args"]["bytes"], copy["pid"]) == ("Memcpy DtoD (Device -> Device)", 400, 0)
    assert len(trace.calls("orStreamWaitEvent")) == 2


@pytest.mark.long
def test_none_of_very_many_is_lost() -> None:
    """A million records: 500 000 kernels and the calls that launched them."""
    x = torch.rand(1, device="openreg")
    count = 500_000
    with profile(activities=[DEVICE]) as recorded, torch.no_grad():
        for _ in range(count):
            x.add_(1)
    assert recorded.profiler is not None
    kinds = Counter(event.activity_type() for event in recorded.profiler.kineto_results.events())
    assert kinds["kernel"] == count
    assert count <= kinds["privateuse1_runtime"] <= count + 1  # and the wait at the end


def test_two_recorders_cannot_share_a_driver(run_process: RunProcess) -> None:
    code = """
        import ctypes, torch
        from torch.profiler import profile
        from tests import offers
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda activity, user: None)
        x = torch.rand(2, device="openreg")
        assert offers.library().orActivityStart(callback, None) == 0
        with profile() as recorded:
            x + x
        assert offers.library().orActivityStop() == 0
        assert not [event for event in recorded.events() if event.name == "add"]
        with profile() as recorded:
            x + x
        print([event.name for event in recorded.events() if event.device_type.name == "OPENREG"])
        """
    result = run_process(code, KINETO_LOG_LEVEL="99", PYTHONPATH=".")
    assert result.returncode == 0, result.stderr
    assert "this profile lacks the device: orErrorInvalidValue" in result.stderr
    assert result.stdout.startswith("['add")


@pytest.mark.needs("simulator", "host kernels")
def test_a_child_does_not_go_on_with_the_profile_of_its_parent(run_process: RunProcess) -> None:
    code = """
        import os, torch
        from torch.profiler import profile, record_function
        x = torch.rand(2, device="openreg")
        with profile() as recorded:
            x + x
            child = os.fork()
            if child == 0:
                with record_function("in the child"):
                    try:
                        x + x
                    except RuntimeError as error:
                        print("fork" in str(error), flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            x + x
        print([event.name for event in recorded.events() if event.name == "add"])
        """
    result = run_process(code, KINETO_LOG_LEVEL="99")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "True\n['add', 'add']\n"


def test_a_profile_of_the_cpu_where_no_device_can_be_used(run_process: RunProcess) -> None:
    code = """
        import torch
        from torch.profiler import profile
        with profile() as recorded:
            torch.ones(2) + 1
        print([event.name for event in recorded.events() if event.name == "aten::add"])
        torch.openreg.synchronize()
        """
    result = run_process(code, OPENREG_DEVICE_COUNT="0")
    assert (result.returncode, result.stdout) == (0, "['aten::add']\n"), result.stderr
    assert "openreg: this profile lacks the device: orErrorInitialization" in result.stderr


@pytest.mark.needs("simulator")
def test_a_profile_of_the_cpu_in_a_child_that_cannot_use_the_device(run_process: RunProcess) -> None:
    code = """
        import os, sys, torch
        from torch.profiler import profile
        torch.ones(3, device="openreg")
        if (child := os.fork()) == 0:
            with profile() as recorded:
                torch.ones(2) + 1
            print([event.name for event in recorded.events() if event.name == "aten::add"], flush=True)
            sys.exit(0)
        print(os.waitpid(child, 0)[1])
        """
    result = run_process(code, KINETO_LOG_LEVEL="99")
    assert (result.returncode, result.stdout) == (0, "['aten::add']\n0\n"), result.stderr


def test_a_program_may_end_inside_a_profile(run_process: RunProcess) -> None:
    code = """
        import sys, torch
        from torch.profiler import profile
        x = torch.rand(2, device="openreg")
        with profile():
            torch.openreg._sleep(50_000_000)
            x + x
            sys.exit(3)
        """
    run_process(code, status=3, KINETO_LOG_LEVEL="99")


@pytest.mark.needs("faults", "simulator", "host kernels")
def test_a_kernel_that_fails_ends_in_a_trace(run_process: RunProcess) -> None:
    code = """
        import torch
        from torch.profiler import profile
        from tests import offers
        x = torch.rand(2, device="openreg")
        with profile() as recorded:
            x + x
            assert offers.library().orInjectFault(1, 0, 1) == 0
            try:
                x * x
                torch.accelerator.synchronize()
            except torch.AcceleratorError as error:
                print("injected fault" in str(error))
            torch.openreg.synchronize = lambda device=None: None
        print([event.name for event in recorded.events() if event.device_type.name == "OPENREG"])
        """
    result = run_process(code, KINETO_LOG_LEVEL="99", PYTHONPATH=".")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "True\n['add', 'mul']\n"


@pytest.mark.needs("simulator")
def test_a_child_that_was_forked_while_threads_record_opens_ranges(run_process: RunProcess) -> None:
    # Sooner or later a fork meets a thread that holds the lock of the records, which no one releases in the child.
    code = """
        import os, signal, threading, torch
        from torch.openreg.profiler import mark, range_pop, range_push
        from torch.profiler import profile
        torch.accelerator.synchronize()

        def record():
            stream = torch.Stream("openreg")
            while True:
                stream.synchronize()  # a call of the driver, without the GIL

        threads = [threading.Thread(target=record, daemon=True) for _ in range(2)]
        with profile():
            for thread in threads:
                thread.start()
            for _ in range(30):
                child = os.fork()
                if child == 0:
                    signal.alarm(10)
                    range_push("in the child")
                    mark("there")
                    range_pop()
                    os._exit(0)
                if os.waitpid(child, 0)[1] != 0:
                    print("a child hangs", flush=True)
                    os._exit(1)
            print("all children have ended", flush=True)
            os._exit(0)  # the trace of so many calls would take seconds
        """
    result = run_process(code, KINETO_LOG_LEVEL="99")
    assert result.stdout == "all children have ended\n", result.stderr


@pytest.mark.needs("queue", "two devices")
def test_other_threads_of_python_run_while_a_profile_waits_for_its_work() -> None:
    turns: list[int] = []
    done = threading.Event()

    def take_turns() -> None:
        while not done.wait(0.005):
            turns.append(1)

    thread = threading.Thread(target=take_turns)
    thread.start()
    with profile(activities=BOTH) as recorded:
        with torch.openreg.device(1):  # the profile itself waits for the current device
            torch.openreg._sleep(300_000_000)
        before = len(turns)
    during = len(turns) - before
    done.set()
    thread.join()
    assert Trace(recorded).names("kernel") == ["sleep"]
    assert during >= 5
