"""The exceptions raised for errors of the driver, their messages, and what still works after each."""

from __future__ import annotations

import pickle
import threading

import pytest
import torch

from tests import offers
from tests.conftest import RunProcess
from tests.offers import DEVICES, LAST_DEVICE
from torch_openreg import _C

FAILED = (
    "orErrorLaunchFailure: a kernel failed; the device runs nothing more until orDeviceReset ({function}: kernel "
    "'abs' failed on openreg:0: injected fault; the device runs nothing more until orDeviceReset). PyTorch cannot "
    "reset a device: restart the process"
)
LOST = (
    "orErrorDeviceLost: the device is lost until orDeviceReset ({function}: openreg:0 is lost (injected fault) until "
    "orDeviceReset). PyTorch cannot reset a device: restart the process"
)
NO_STREAM = 0x123456789  # a driver may count its handles from 1
INJECT = f"""
import ctypes, os, sys, threading
import torch
def inject(fault, count=1, device=0):
    driver = ctypes.CDLL("libopenreg.so")
    assert driver.orInjectFault(fault, device, count) == 0
def attempt(call):
    try:
        print(call())
    except Exception as error:
        print(type(error).__name__, getattr(error, "error_code", None), error)
x = torch.ones(4, device="openreg")
y = torch.ones(4, device="{LAST_DEVICE}")
"""


def lines(run_process: RunProcess, code: str, **environment: str) -> list[str]:
    """What the code prints, in a process that can inject faults."""
    ran = run_process(INJECT + code, **environment)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_an_error_of_a_call_is_a_runtime_error_and_leaves_no_trace() -> None:
    with pytest.raises(RuntimeError, match=r"orErrorInvalidHandle: .* \(orStreamGetDevice: .*") as caught:
        _C._external_stream(NO_STREAM)
    if offers.is_simulated():
        assert f"(orStreamGetDevice: {NO_STREAM:#x} is not a stream, or no longer)" in str(caught.value)
    assert type(caught.value) is RuntimeError
    assert torch.ones(2, device="openreg").tolist() == [1.0, 1.0]


def test_too_much_pinned_memory_is_out_of_memory() -> None:
    with pytest.raises(
        torch.OutOfMemoryError, match=r"orErrorMemoryAllocation: .*\(orMallocHost: the host has no room"
    ):
        torch.empty(1 << 50, dtype=torch.uint8, pin_memory=True)
    assert torch.ones(2).pin_memory().is_pinned()


def test_too_much_device_memory_is_out_of_memory() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="openreg out of memory: tried to allocate 4398046511104 bytes"):
        torch.empty(1 << 40, device="openreg")


@pytest.mark.needs("faults", "host kernels")
@pytest.mark.parametrize("mode", ["auto", "async"])
def test_a_failed_kernel_is_told_by_the_next_call_that_waits_and_stays(run_process: RunProcess, mode: str) -> None:
    code = """
inject(1)
attempt(lambda: x.abs().shape)
attempt(lambda: x.tolist())
attempt(lambda: x.abs())
attempt(lambda: torch.accelerator.synchronize("openreg:0"))
attempt(lambda: (y + y).tolist())
"""
    launch_fails = f"AcceleratorError 11 {FAILED.format(function='orLaunchHostKernel')}"
    assert lines(run_process, code, OPENREG_LAUNCH=mode) == [
        "torch.Size([4])",
        f"AcceleratorError 11 {FAILED.format(function='orMemcpyAsync')}",
        launch_fails,
        f"AcceleratorError 11 {FAILED.format(function='orDeviceSynchronize')}",
        "[2.0, 2.0, 2.0, 2.0]" if len(DEVICES) > 1 else launch_fails,
    ]


@pytest.mark.needs("faults", "host kernels")
def test_a_failed_kernel_raises_at_the_launch_in_inline_mode(run_process: RunProcess) -> None:
    printed = lines(run_process, "inject(1)\nattempt(lambda: x.abs())", OPENREG_LAUNCH="inline")
    assert printed == [f"AcceleratorError 11 {FAILED.format(function='orLaunchHostKernel')}"]


@pytest.mark.needs("faults", "host kernels", "two devices")
def test_a_lost_device_says_so_in_every_call_and_the_other_goes_on(run_process: RunProcess) -> None:
    code = """
event = torch.Event("openreg:0"); event.record()
inject(3)
for call in (event.query, event.synchronize, lambda: x.abs(), lambda: x.tolist(), lambda: x.to("openreg:1"),
             lambda: torch.accelerator.synchronize("openreg:0"),
             lambda: torch.accelerator.get_memory_info("openreg:0")):
    attempt(call)
attempt(torch.accelerator.device_count)
attempt(lambda: (y + y).tolist())
"""
    functions = (
        "orEventQuery", "orEventSynchronize", "orLaunchHostKernel", "orMemcpyAsync", "orStreamWaitEvent",
        "orDeviceSynchronize", "orMemGetInfo",
    )  # fmt: skip
    assert lines(run_process, code) == [
        *(f"AcceleratorError 12 {LOST.format(function=function)}" for function in functions),
        str(torch.accelerator.device_count()),
        "[2.0, 2.0, 2.0, 2.0]",
    ]


@pytest.mark.needs("faults", "host kernels")
def test_a_refused_destructor_warns_with_the_place_of_the_call(run_process: RunProcess) -> None:
    ran = run_process(INJECT + "event = torch.Event('openreg:0'); event.record()\ninject(3)\ndel event\nprint('alive')")
    assert (ran.returncode, ran.stdout) == (0, "alive\n")
    assert "event.cpp:" in ran.stderr
    assert f"Warning: {LOST.format(function='orEventDestroy')} (function void openreg::destroy_event" in ran.stderr


@pytest.mark.needs("faults", "host kernels")
def test_an_allocation_is_tried_again_and_then_out_of_memory(run_process: RunProcess) -> None:
    code = """
for count in (1, 2, 3):
    torch.accelerator.empty_cache()
    inject(0, count)
    attempt(lambda: torch.empty(1 << 20, device="openreg").shape[0])
    statistics = torch.accelerator.memory_stats(0)
    print(statistics["num_alloc_retries"], statistics["num_ooms"])
attempt(lambda: torch.ones(2, device="openreg").tolist())
"""
    printed = lines(run_process, code)
    assert printed[:4] == ["1048576", "1 0", "1048576", "2 0"]
    assert printed[4].startswith("OutOfMemoryError None openreg out of memory: tried to allocate 4194304 bytes")
    assert printed[5:] == ["3 1", "[1.0, 1.0]"]


@pytest.mark.needs("faults", "host kernels")
def test_errors_of_backward_keep_class_and_code(run_process: RunProcess) -> None:
    code = """
class Fails(torch.autograd.Function):
    @staticmethod
    def forward(context, x, failure):
        context.failure = failure
        return x.abs()
    @staticmethod
    def backward(context, gradient):
        context.failure(gradient)
        return gradient, None
x.requires_grad_()
def fail(gradient):
    inject(1)
    gradient.abs()
    torch.accelerator.synchronize("openreg")
for failure in (lambda gradient: {}["absent"], lambda gradient: torch.openreg.set_device(9), fail):
    attempt(Fails.apply(x, failure).sum().backward)
"""
    last = torch.accelerator.device_count() - 1
    assert lines(run_process, code) == [
        "KeyError None 'absent'",
        f"RuntimeError None openreg: device index 9 was asked for, but the valid indices are 0 to {last} "
        "(OPENREG_DEVICE_COUNT sets the number of devices)",
        f"AcceleratorError 11 {FAILED.format(function='orDeviceSynchronize')}",
    ]


@pytest.mark.needs("faults", "host kernels")
def test_every_thread_is_told_of_a_failure(run_process: RunProcess) -> None:
    code = """
inject(1)
x.abs()
attempt(lambda: torch.accelerator.synchronize("openreg"))
thread = threading.Thread(target=attempt, args=(x.tolist,))
thread.start()
thread.join()
"""
    assert [line.split()[:2] for line in lines(run_process, code)] == [["AcceleratorError", "11"]] * 2


@pytest.mark.needs("faults", "host kernels")
def test_a_hang_is_noticed_by_a_query(run_process: RunProcess) -> None:
    code = """
event = torch.Event("openreg")
inject(2)
x.abs()
event.record()
attempt(event.query)
if y.device != x.device:
    attempt(lambda: y.abs().tolist())
"""
    assert lines(run_process, code) == ["False", "[1.0, 1.0, 1.0, 1.0]"][: len(DEVICES)]


@pytest.mark.needs("queue")
def test_a_query_is_an_answer_and_no_error() -> None:
    stream = torch.Stream("openreg")
    with stream:
        torch.openreg._sleep(200_000_000)
        assert stream.query() is False
        stream.synchronize()
        assert stream.query() is True


def test_the_place_of_the_call_is_named_with_a_stack_trace(run_process: RunProcess) -> None:
    code = f"from torch_openreg import _C\nattempt(lambda: _C._external_stream({NO_STREAM}))"
    printed = lines(run_process, code, TORCH_SHOW_CPP_STACKTRACES="1", TORCH_DISABLE_ADDR2LINE="1")
    place = next(line for line in printed if line.startswith("Exception raised from"))
    assert "openreg::external_stream" in place
    assert "csrc/runtime/stream.cpp:" in place


def test_errors_can_be_sent_to_another_process() -> None:
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(1 << 40, device="openreg")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is torch.OutOfMemoryError
    assert str(again) == str(caught.value)


def test_errors_in_a_thread_stay_in_that_thread() -> None:
    seen: list[BaseException] = []

    def work() -> None:
        try:
            torch.openreg.set_device(9)
        except RuntimeError as error:
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "device index 9" in str(seen[0])
    torch.accelerator.synchronize("openreg")
