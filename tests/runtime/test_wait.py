"""Ctrl-C while the host waits for the device."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.needs("queue")
PRELUDE = """
import os, signal, sys, threading, time
import torch

HOUR, MILLISECOND = 3600 * 10**9, 10**6
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets programs in the background ignore it

def send_soon(number):
    threading.Timer(0.1, os.kill, (os.getpid(), number)).start()

def in_child(work):
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        signal.alarm(30)
        work()
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""

WAITS = {
    "torch.openreg.synchronize": "torch.openreg.synchronize()",
    "torch.accelerator.synchronize": "torch.accelerator.synchronize()",
    "other_device": f"torch.accelerator.synchronize({LAST_DEVICE!r})",
    "Stream.synchronize": "torch.accelerator.current_stream().synchronize()",
    "Event.synchronize": "event.synchronize()",
    "InterprocessEvent.synchronize": "interprocess.synchronize()",
    "share_memory_": "x.share_memory_()",
    "item": "x[0].item()",
    "cpu": "x.cpu()",
    "cpu_non_blocking": "x.cpu().copy_(x, non_blocking=True)",
    "cpu_of_another_dtype": "torch.empty(8, dtype=torch.float64).copy_(x)",
    "to_the_device": "large.to('openreg')",
    "nonzero": "x.nonzero()",
    "fallback": "torch.linalg.det(torch.ones(3, 3, device='openreg'))",
}


def run(code: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    code = """
def try_one(name, wait):
    x, large = torch.ones(8, device="openreg"), torch.ones(1 << 20)
    torch.openreg._sleep(HOUR)
    torch.accelerator.set_device_index(torch.accelerator.device_count() - 1)
    torch.openreg._sleep(HOUR)
    torch.accelerator.set_device_index(0)
    event = torch.Event("openreg")
    event.record()
    if "interprocess" in wait:
        interprocess = torch.openreg.InterprocessEvent()
        interprocess.record()
    send_soon(signal.SIGINT)
    try:
        eval(wait)
        print(name, "returned")
    except KeyboardInterrupt:
        print(name, "interrupted")
"""
    for name, wait in WAITS.items():
        code += f"in_child(lambda: try_one({name!r}, {wait!r}))\n"
    return dict(line.split() for line in run(code).splitlines())


@pytest.mark.needs("sharing")
@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(outcomes: dict[str, str], wait: str) -> None:
    assert outcomes[wait] == "interrupted"


@pytest.mark.needs("queue", "kernels")
def test_the_work_goes_on_after_an_interrupted_wait() -> None:
    code = """
x = torch.ones(8, device="openreg")
torch.openreg._sleep(500 * MILLISECOND)
x.add_(1)
send_soon(signal.SIGINT)
try:
    torch.accelerator.synchronize()
except KeyboardInterrupt:
    print(torch.accelerator.current_stream().query())
print(x.sum().item())
"""
    assert run(code).split() == ["False", "16.0"]


@pytest.mark.needs("queue")
def test_a_handler_that_returns_lets_the_wait_go_on() -> None:
    code = """
x = torch.ones(8, device="openreg")
signal.signal(signal.SIGUSR1, lambda *_: print("handled", torch.accelerator.current_stream().query()))
torch.openreg._sleep(500 * MILLISECOND)
send_soon(signal.SIGUSR1)
torch.accelerator.synchronize()
print("waited", torch.accelerator.current_stream().query())
"""
    assert run(code).splitlines() == ["handled False", "waited True"]


def test_the_wait_of_another_thread_is_left_alone() -> None:
    code = """
torch.openreg._sleep(500 * MILLISECOND)
thread = threading.Thread(target=lambda: (torch.accelerator.synchronize(), print("waited")))
thread.start()
send_soon(signal.SIGINT)
try:
    time.sleep(10)
except KeyboardInterrupt:
    print("interrupted")
thread.join()
"""
    assert run(code).splitlines() == ["interrupted", "waited"]


@pytest.mark.needs("queue")
def test_a_wait_does_not_last_for_what_others_queue_meanwhile() -> None:
    code = """
stream = torch.accelerator.current_stream()
stop = threading.Event()

def queue():
    while not stop.is_set():
        torch.openreg._sleep(20 * MILLISECOND)
        time.sleep(0.01)

thread = threading.Thread(target=queue)
torch.openreg._sleep(100 * MILLISECOND)
thread.start()
signal.alarm(20)
stream.synchronize()
print("idle", stream.query())
stop.set()
thread.join()
"""
    assert run(code) == "idle False\n"


@pytest.mark.needs("faults", "host kernels")
def test_a_failed_kernel_is_reported_by_the_function_that_waits() -> None:
    code = """
import ctypes
x = torch.ones(8, device="openreg")
torch.openreg._sleep(100 * MILLISECOND)
ctypes.CDLL("libopenreg.so").orInjectFault(1, 0, 1)
x.abs()
try:
    torch.accelerator.current_stream().synchronize()
except torch.AcceleratorError as error:
    print(error)
"""
    assert "(orStreamSynchronize: kernel 'abs' failed on openreg:0: injected fault;" in run(code)
