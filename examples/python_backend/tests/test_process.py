"""The process behind a device, and what it survives: interrupts, threads, and a host without memory or files."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

host = importlib.import_module("torch_remote.devices")
memory = importlib.import_module("torch_remote.memory")

Run = Callable[[str], subprocess.CompletedProcess[str]]
ProcessOf = Callable[[int], int]


def test_errors_are_those_of_the_operator() -> None:
    """The kernel's exception type and message, at the call where the shape is wrong, and the device's traceback."""
    x = torch.ones(2, 3, device="remote")
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied") as caught:
        x @ x
    assert "On remote:0:\nTraceback" in caught.value.__notes__[0]
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.sum(7)
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.inv(torch.zeros(2, 2, device="remote")).tolist()
    assert (x + 1).sum().item() == 12


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT and SIGALRM raise KeyboardInterrupt. Background jobs of a shell ignore SIGINT."""
    kinds = signal.SIGINT, signal.SIGALRM
    before = [signal.signal(kind, signal.default_int_handler) for kind in kinds]
    yield
    for kind, handler in zip(kinds, before, strict=True):
        signal.signal(kind, handler)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_loses_no_answer() -> None:
    """An interrupted wait leaves the connection consistent, whenever the interrupt arrives."""
    x = torch.arange(100_000.0, device="remote")
    main = threading.main_thread().ident
    assert main is not None
    seen = 0
    for delay in range(30):
        timer = threading.Timer(delay / 3000, signal.pthread_kill, [main, signal.SIGINT])
        try:
            timer.start()
            while True:
                (x + delay).cpu()
        except KeyboardInterrupt:
            seen += 1
        timer.join()
        assert x[:3].tolist() == [0, 1, 2]
    assert seen == 30


def recorded_event() -> torch.Event:
    """An event that has been recorded."""
    event = torch.Event("remote")
    event.record()
    return event


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("kind", ["tensor", pytest.param("event", marks=pytest.mark.compiled)])
def test_ctrl_c_in_destructors(kind: str) -> None:
    """Destructors cannot raise it, so it is raised after them; and all memory that they free is freed."""
    known = set(memory.memories[0].sizes)
    made = [torch.empty(1, device="remote") if kind == "tensor" else recorded_event() for _ in range(10_000)]
    addresses = set(memory.memories[0].sizes) - known
    assert len(addresses) == len(made)

    def die() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        made.clear()
        for _ in range(100):
            time.sleep(0.1)

    with pytest.raises(KeyboardInterrupt):
        die()
    made.clear()  # on a slow machine, the interrupt came before
    torch.remote.memory_allocated()  # counts what was freed
    assert addresses.isdisjoint(memory.memories[0].sizes)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_before_the_device_has_learnt_what_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device learns of the free with the next command that arrives."""
    process, told = host.devices[0].started(), []
    send = process.send

    def interrupted(message: tuple[Any, ...], buffers: Any) -> None:
        if message[0] == "free":
            told.append(message[1])
            if len(told) == 1:
                signal.raise_signal(signal.SIGINT)
        send(message, buffers)

    x = torch.ones(2, device="remote")
    address = x.data_ptr()
    monkeypatch.setattr(process, "send", interrupted)
    del x
    with pytest.raises(KeyboardInterrupt):
        torch.ones(1, device="remote")
    assert torch.ones(1, device="remote").item() == 1
    assert all(address in addresses for addresses in told[:2])
    assert not any(address in addresses for addresses in told[2:])


def test_a_signal_handler_allocates_in_the_middle_of_an_allocation(run_process: Run) -> None:
    """It waits for nothing, and gets an address of its own."""
    ran = run_process("""
        made = []
        def handler(*_): made.append(torch.empty(4, device="remote").data_ptr())
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0005)
        addresses, end = [], time.monotonic() + 3
        while time.monotonic() < end:
            addresses.append(torch.empty(4, device="remote").data_ptr())
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(len(made) > 100, len({*made, *addresses}) == len(made) + len(addresses))
        import gc; gc.collect()
        print(torch.remote.memory_allocated())
    """)
    assert ran.stdout == "True True\n0\n", ran.stderr


def bytes_of(process: Any) -> int:
    """The memory of a process."""
    return int(Path(f"/proc/{process.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grows_by(process: Any, before: int, device: int) -> int:
    """The bytes that a process has more than before, once all its streams know what was freed."""
    for _ in range(3):
        torch.ones(1, device=f"remote:{device}").tolist()
        torch.accelerator.synchronize(device)
    return bytes_of(process) - before


def test_freed_memory_is_kept_by_no_stream(second: int) -> None:
    """Nor by the thread that read the last command."""
    torch.ones(1, device=f"remote:{second}").tolist()
    process = host.devices[second].started()
    before = bytes_of(process)
    for _ in range(3):
        with torch.Stream(f"remote:{second}"):
            x = torch.ones(20_000_000, device=f"remote:{second}")
            torch.accelerator.synchronize(second)
            del x
    assert grows_by(process, before, second) < 60_000_000


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupted_question_leaves_nothing_on_the_device(second: int) -> None:
    """What the device has computed without knowing where to put it is dropped."""
    x = torch.ones(5_000_000, device=f"remote:{second}")
    torch.nonzero(x)
    process = host.devices[second].started()
    torch.accelerator.synchronize(second)
    before, main, seen = bytes_of(process), threading.main_thread().ident, 0
    assert main is not None
    for _ in range(6):
        timer = threading.Timer(0.005, signal.pthread_kill, [main, signal.SIGINT])
        try:
            timer.start()
            torch.nonzero(x)
            time.sleep(1)
        except KeyboardInterrupt:
            seen += 1
        timer.join()
    assert seen == 6
    assert grows_by(process, before, second) < 60_000_000


def test_a_reset_in_the_middle_of_a_question(second: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question goes to the process whose answer is waited for, and raises, as that one has ended."""
    device, ends = host.devices[second], []
    started = device.started

    def start_and_reset() -> Any:
        process = started()
        monkeypatch.undo()
        device.reset()
        return process

    def ask() -> None:
        try:
            device.ask("synchronize")
        except host.DeviceDied as error:
            ends.append(str(error))

    monkeypatch.setattr(device, "started", start_and_reset)
    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    asker.join(20)
    assert [f"the process of device remote:{second} is gone" in end for end in ends] == [True]


def test_the_default_dtype_changes_while_no_kernel_runs() -> None:
    """All streams have the same one, so a kernel that needs another waits; one that needs the same does not."""
    shared, before = importlib.import_module("torch_remote.device.process").DefaultDtype(), torch.get_default_dtype()
    done: list[torch.dtype] = []

    def run(dtype: torch.dtype) -> None:
        with shared.set_to(dtype):
            done.append(torch.get_default_dtype())

    try:
        with shared.set_to(torch.float32):
            threads = [threading.Thread(target=run, args=[dtype]) for dtype in (torch.float64, torch.float32)]
            for thread in threads:
                thread.start()
            threads[1].join(20)
            threads[0].join(0.1)
            assert (done, torch.get_default_dtype()) == ([torch.float32], torch.float32)
        threads[0].join(20)
        assert done == [torch.float32, torch.float64]
    finally:
        torch.set_default_dtype(before)


def test_many_threads() -> None:
    """Operators, copies and random numbers of several threads do not interfere."""
    wrong: list[Any] = []

    def work(seed: int) -> None:
        values = torch.arange(64.0) * seed
        x = values.to("remote")
        for _ in range(30):
            results = (x * 2 + 1).cpu(), x[x > 5].cpu(), torch.rand(3, device="remote").max().item() < 1
            expected = values * 2 + 1, values[values > 5], True
            wrong.extend(
                r for r, e in zip(results, expected, strict=True) if not torch.equal(*map(torch.as_tensor, (r, e)))
            )

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_large_messages() -> None:
    """A call that does not fit in a packet goes through shared memory."""
    parts = [torch.full((1,), float(number), device="remote") for number in range(3000)]
    assert torch.cat(parts).sum().item() == sum(range(3000))
    torch._foreach_add_(parts, 1.0)
    assert parts[-1].item() == 3000
    del parts
    assert torch.ones(1, device="remote").item() == 1


def test_an_answer_that_finds_no_memory(second: int, process_of: ProcessOf) -> None:
    """If a device can open no more files, large answers become errors. It lives on, and the next answer arrives."""
    x = torch.arange(1 << 16, device=f"remote:{second}")
    device = process_of(second)
    before = resource.prlimit(device, resource.RLIMIT_NOFILE)
    resource.prlimit(device, resource.RLIMIT_NOFILE, (1, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            x.cpu()
        assert x[7].item() == 7
    finally:
        resource.prlimit(device, resource.RLIMIT_NOFILE, before)
    assert torch.equal(x.cpu(), torch.arange(1 << 16))


def test_a_host_that_can_open_no_more_files(second: int, process_of: ProcessOf) -> None:
    """It raises an error for large messages in either direction. Nothing is lost, and nothing waits forever."""
    numbers = torch.arange(1 << 16)
    x = numbers.to(f"remote:{second}")
    device = process_of(second)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, before[1]))
    try:
        with pytest.raises(OSError, match=r"a message is lost, as this process can open no more files"):
            x.cpu()
        with pytest.raises(OSError, match="Too many open files"):
            x.copy_(numbers + 1)
        assert x[7].item() == 7
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert torch.equal(x.cpu(), numbers)
    assert process_of(second) == device


def test_a_device_that_loses_a_command(second: int, process_of: ProcessOf, capfd: pytest.CaptureFixture[str]) -> None:
    """The device cannot know what the command was, so it ends and says why."""
    device = process_of(second)
    resource.prlimit(device, resource.RLIMIT_NOFILE, (1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    x = torch.arange(1 << 16).to(f"remote:{second}")
    with pytest.raises(host.DeviceDied, match=r"exit status 1"):
        x.cpu()
    assert "a message is lost, as this process can open no more files" in capfd.readouterr().err
    torch.remote.reset(second)


def test_the_folder_of_the_user_is_not_imported_from(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, second: int
) -> None:
    """The device does not import a file named queue.py beside a script."""
    (tmp_path / "queue.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    torch.remote.reset(second)
    assert torch.ones(1, device=f"remote:{second}").item() == 1


@pytest.mark.compiled
def test_devices_from_the_environment() -> None:
    """There are as many as requested; an invalid number is rejected."""
    for count, said in (("3", "3"), ("17", "TORCH_REMOTE_DEVICES is from 1 to 16, got 17")):
        code = "import torch, torch_remote; torch_remote.register(); print(torch.remote.device_count())"
        environment = {**os.environ, "TORCH_REMOTE_DEVICES": count, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert said in ran.stdout + ran.stderr


@pytest.mark.compiled
def test_a_device_count_that_raises_does_not_end_the_process() -> None:
    """The engine calls it before any backward, also of a CPU tensor, where no exception may escape."""
    code = """
import torch, torch_remote
from torch_remote import answers
answers.device_count = lambda: 1 / 0
torch_remote.register()
x = torch.ones(2, requires_grad=True)
x.sum().backward()
print(x.grad.tolist())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "[1.0, 1.0]\n"), ran.stderr
    assert "ZeroDivisionError" in ran.stderr
