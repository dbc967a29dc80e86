"""How the process behind a device starts and ends, and what a forked child may do."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable

import pytest
import torch

host = importlib.import_module("torch_remote.devices")

Run = Callable[[str], subprocess.CompletedProcess[str]]
ProcessOf = Callable[[int], int]


def has_ended(process: int) -> bool:
    """Whether a process ends within some seconds."""
    for _ in range(100):
        with contextlib.suppress(FileNotFoundError):
            with open(f"/proc/{process}/stat", encoding="utf-8") as stat:
                state = stat.read().rpartition(") ")[2][0]
            if state not in "ZX":
                time.sleep(0.1)
                continue
        return True
    return False


def use_until_it_fails(x: torch.Tensor) -> None:
    """Uses a tensor until that raises, because a signal takes a moment to arrive."""
    for _ in range(100):
        (x + 1).tolist()
        time.sleep(0.05)


ENDS = {
    "comes to its end": "pass",
    "raises": "raise ValueError",
    "leaves by os._exit": "os._exit(3)",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "is killed with work queued": "torch.remote._sleep(30_000_000_000); x + 1; os.kill(os.getpid(), signal.SIGKILL)",
    "ends with work queued": "torch.remote._sleep(30_000_000_000); x + 1",
    "ends with a child that lives on": "os.fork() or os.execv('/bin/sleep', ['sleep', '5'])",
    "ends with a forked child that lives on": "os.fork() or (time.sleep(5), os._exit(0))",
}


def test_a_device_ends_with_its_host(run_process: Run) -> None:
    """However the host ends. Each case is a child that is forked before the first use."""
    ran = run_process(f"""
        for name, end in {ENDS}.items():
            if os.fork() == 0:
                x = torch.ones(2, device="remote"); x.tolist()
                pid = torch_remote.devices.devices[0].process.process.pid
                os.write(1, f"{{name}}:{{pid}}\\n".encode())  # in one piece: the others write as well
                os.close(1), os.close(2)
                exec(end)
                sys.exit()
        for _ in {ENDS}:
            os.wait()
    """)
    processes = dict(line.split(":") for line in ran.stdout.splitlines())
    assert processes.keys() == ENDS.keys(), ran.stderr
    assert [name for name, process in processes.items() if not has_ended(int(process))] == []


def test_it_starts_when_it_is_first_used(run_process: Run) -> None:
    """Import, registration and queries about devices start no process."""
    ran = run_process("""
        print(torch.remote.is_available(), torch.remote.is_initialized())
        torch.manual_seed(1); torch.accelerator.current_accelerator(); torch.remote.synchronize()
        print(all(device.process is None for device in torch_remote.devices.devices))
        torch.ones(1, device="remote").tolist()
        print(torch.remote.is_initialized())
    """)
    assert ran.stdout == "True False\nTrue\nTrue\n", ran.stderr
    assert ran.stderr == ""


def test_a_device_that_was_killed(second: int, process_of: ProcessOf) -> None:
    """The error says so, the other devices keep working, and a reset starts a fresh one."""
    x, other = torch.ones(2, device=f"remote:{second}"), torch.ones(2, device="remote:0")
    os.kill(process_of(second), signal.SIGKILL)
    with pytest.raises(host.DeviceDied, match=rf"the process of device remote:{second} is gone \(exit status -9\)"):
        use_until_it_fails(x)
    with pytest.raises(host.DeviceDied, match=rf"torch.remote.reset\({second}\) lets the next use start another one"):
        x.tolist()
    if second:
        assert other.tolist() == [1, 1]
    torch.remote.reset(second)
    with pytest.raises(RuntimeError, match="was lost when its device was reset"):
        x.tolist()
    assert torch.ones(2, device=f"remote:{second}").tolist() == [1, 1]


def test_who_waits_learns_of_the_death(second: int, process_of: ProcessOf) -> None:
    """A thread that waits for an answer gets the error, not nothing."""
    process, errors = process_of(second), []

    def wait() -> None:
        try:
            host.devices[second].launch("sleep", 0, 30.0)
            torch.remote.synchronize(second)
        except host.DeviceDied as error:
            errors.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    os.kill(process, signal.SIGKILL)
    thread.join(10)
    assert len(errors) == 1


def test_a_device_that_crashes(second: int, process_of: ProcessOf) -> None:
    """A kernel that dereferences null is an exception for the host."""
    x = torch.ones(2, device=f"remote:{second}")
    os.kill(process_of(second), signal.SIGSEGV)
    with pytest.raises(host.DeviceDied, match="exit status -11"):
        use_until_it_fails(x)


def test_forked_after_the_first_use(run_process: Run) -> None:
    """A child cannot use its parent's devices, and the error says what to do. The parent goes on."""
    ran = run_process("""
        x = torch.ones(2, device="remote"); x.tolist()
        if os.fork() == 0:
            try: x + 1
            except RuntimeError as error: print(error, flush=True)
            print(torch.remote._is_in_bad_fork(), flush=True)
            os._exit(0)
        os.wait()
        print((x + 1).tolist())
    """)
    lines = ran.stdout.splitlines()
    assert lines[0].startswith("remote:0 was in use when this process was forked"), ran.stderr
    assert lines[1:] == ["True", "[2.0, 2.0]"]


def test_forked_before_the_first_use(run_process: Run) -> None:
    """Each process has devices of its own."""
    ran = run_process("""
        child = os.fork()
        x = torch.full((2,), 1.0 + bool(child), device="remote")
        if child: os.waitpid(child, 0)
        print(x.tolist(), flush=True)
    """)
    assert ran.stdout == "[1.0, 1.0]\n[2.0, 2.0]\n", ran.stderr


def test_forked_while_another_thread_allocates(run_process: Run) -> None:
    """The child finds the lock free."""
    ran = run_process("""
        sys.setswitchinterval(1e-5)
        ends = False
        def work():
            while not ends: torch.empty(3, device="remote:0")
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads: thread.start()
        hung = 0
        for _ in range(30):
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                torch.empty(3, device="remote:1")
                os._exit(0)
            hung += os.waitpid(child, 0)[1] != 0
        ends = True
        for thread in threads: thread.join()
        print(hung)
    """)
    assert ran.stdout == "0\n", ran.stderr


def test_a_signal_handler_may_use_a_device_that_is_starting(run_process: Run) -> None:
    """It does not wait for the thread that it interrupts, and one process serves both."""
    result = run_process(
        """
        import os, signal, torch
        from torch_remote import devices
        made = []
        signal.signal(signal.SIGUSR1, lambda *_: made.append(torch.ones(2, device="remote")))
        start = devices.Process.__init__
        def interrupted(self, index):
            devices.Process.__init__ = start
            start(self, index)
            os.kill(os.getpid(), signal.SIGUSR1)
        devices.Process.__init__ = interrupted
        x = torch.ones(2, device="remote")
        print((x + made[0]).tolist())
        """
    )
    assert result.stdout == "[2.0, 2.0]\n", result.stderr
