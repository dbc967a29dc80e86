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
    "cpu_non_blocking": "torch.empty(8).copy_(x, non_blocking=True)",
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


# x[i] waits inside a call of the library, the others in operators below autograd, the last in no operator.
@pytest.mark.needs("queue", "kernels")
def test_a_handler_is_a_part_of_the_program_and_not_of_the_operator_that_waits() -> None:
    code = """
x, i = torch.ones(8, device="openreg"), torch.tensor([0], device="openreg")
made = []

def handler(*_):
    weight = torch.nn.Parameter(torch.full((2,), 3.0, device="openreg"))
    weight.square().sum().backward()
    made.append(weight)
    changed = weight * 1
    changed[0].mul_(2)  # a view of it
    assert (changed._version, torch.autograd.grad(changed.sum(), weight)[0].tolist()) == (1, [2.0, 1.0])
    modes = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    print("handled", weight.grad.tolist(), weight.is_inference(), *modes)

signal.signal(signal.SIGUSR1, handler)
for wait in (lambda: x[i], lambda: x.sum().item(), lambda: x.cpu(), torch.accelerator.synchronize):
    torch.openreg._sleep(500 * MILLISECOND)
    send_soon(signal.SIGUSR1)
    wait()
    made[-1].data.add_(1)
    print(torch.is_inference_mode_enabled(), torch.is_grad_enabled(), (x.requires_grad_() * 2).requires_grad)

def tell(*_):
    print(torch.is_inference_mode_enabled(), torch.is_grad_enabled())

signal.signal(signal.SIGUSR1, tell)
for mode in (torch.no_grad, torch.inference_mode):
    with mode():
        torch.openreg._sleep(500 * MILLISECOND)
        send_soon(signal.SIGUSR1)
        x[i]
"""
    handled = ["handled [6.0, 6.0] False False True", "False True True"]
    assert run(code).splitlines() == [*handled * 4, "False False", "True False"]


@pytest.mark.needs("queue", "kernels")
@pytest.mark.parametrize("direction", ["to_the_host", "to_the_device"])
def test_memory_of_an_interrupted_copy_is_not_reused_before_the_copy_is_over(direction: str) -> None:
    """A copy that blocks waits for the work before it, queues, and waits again: the signal must fall into that."""
    code = f"""
to_device = {direction == "to_the_device"}
count = 1 << 18
on_device = torch.full((count,), 7.0, device="openreg")
host = torch.full((count,), 5.0).pin_memory()
torch.accelerator.synchronize()
stream = torch.accelerator.current_stream()

def handler(*_):
    raise TimeoutError

signal.signal(signal.SIGUSR1, handler)

def keep_busy():  # the first wait ends before the stream is idle, and the second begins behind this
    time.sleep(0.2)
    for _ in range(20):
        torch.openreg._sleep(200 * MILLISECOND)
        time.sleep(0.19)
"""
    code += """
torch.openreg._sleep(300 * MILLISECOND)
thread = threading.Thread(target=keep_busy)
thread.start()
threading.Timer(0.45, os.kill, (os.getpid(), signal.SIGUSR1)).start()
address = host.data_ptr()
try:
    on_device.copy_(host) if to_device else host.copy_(on_device)
    print("not interrupted")
except TimeoutError:
    pass
del host
others = [torch.zeros(count).pin_memory() for _ in range(3)]
thread.join()
torch.accelerator.synchronize()
print(any(each.any() for each in others), set(on_device.tolist()) <= {5.0, 7.0})
"""
    assert run(code).splitlines() == ["False True"]


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


@pytest.mark.needs("queue")
def test_a_handler_may_fall_back_while_the_program_does() -> None:
    code = """
x, y = torch.eye(4, device="openreg"), torch.eye(3, device="openreg")
sizes = []
signal.signal(signal.SIGUSR1, lambda *_: sizes.append(torch.linalg.qr(y)[0].shape))
torch.openreg._sleep(500 * MILLISECOND)
send_soon(signal.SIGUSR1)
print(torch.linalg.qr(x)[0].shape, sizes)
"""
    assert run(code).strip() == "torch.Size([4, 4]) [torch.Size([3, 3])]"


@pytest.mark.needs("queue", "two devices")
def test_a_handler_has_the_current_device_of_the_program() -> None:
    code = """
signal.signal(signal.SIGUSR1, lambda *_: print(torch.zeros(1, device="openreg").device))
with torch.openreg.device(1):
    torch.openreg._sleep(500 * MILLISECOND)
send_soon(signal.SIGUSR1)
torch.openreg.synchronize(1)
"""
    assert run(code).strip() == "openreg:0"
