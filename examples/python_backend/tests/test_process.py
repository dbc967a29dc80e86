"""The process behind a device: how it starts, what it survives, and how it ends."""

from __future__ import annotations

import contextlib
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


def process_of(index: int) -> int:
    """The id of a device's process, started."""
    torch.zeros(1, device=f"remote:{index}").tolist()
    return int(host.devices[index].started().process.pid)


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


@pytest.fixture
def second() -> Iterator[int]:
    """The index of a device that a test may break."""
    index = 1 if torch.remote.device_count() > 1 else 0
    yield index
    torch.remote.reset(index)


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


def test_a_device_that_was_killed(second: int) -> None:
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


def test_who_waits_learns_of_the_death(second: int) -> None:
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


def test_a_device_that_crashes(second: int) -> None:
    """A kernel that dereferences null is an exception for the host."""
    x = torch.ones(2, device=f"remote:{second}")
    os.kill(process_of(second), signal.SIGSEGV)
    with pytest.raises(host.DeviceDied, match="exit status -11"):
        use_until_it_fails(x)


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
        timer.start()
        try:
            torch.nonzero(x)
            time.sleep(1)
        except KeyboardInterrupt:
            seen += 1
        timer.join()
    assert seen == 6
    assert grows_by(process, before, second) < 60_000_000


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


def test_an_answer_that_finds_no_memory(second: int) -> None:
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


def test_a_host_that_can_open_no_more_files(second: int) -> None:
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


def test_a_device_that_loses_a_command(second: int, capfd: pytest.CaptureFixture[str]) -> None:
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
