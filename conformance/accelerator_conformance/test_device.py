"""Which devices there are, and which one is current."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch

from accelerator_conformance.checks import chapter, current_is, level

pytestmark = chapter("device")


@chapter("registration")
def test_name_is_registered(device: str) -> None:
    """torch.device knows the name, and tensors can be created with it."""
    assert torch.device(device).type == device
    assert torch.empty(0, device=device).device.type == device


@chapter("hooks")
def test_is_the_accelerator(device: str) -> None:
    """torch.accelerator is this device, and it is available."""
    accelerator = torch.accelerator.current_accelerator()
    assert accelerator is not None, "no accelerator is known: are the hooks registered?"
    assert accelerator.type == device
    assert torch.accelerator.is_available(), "the hooks say that no device is available"


def test_counts_agree(module: Any) -> None:
    """torch.accelerator and the device module count the same devices, at least one."""
    count = torch.accelerator.device_count()
    assert count >= 1, "there is no device"
    assert module.device_count() == count


def test_first_device_is_current_in_a_new_thread(device: str) -> None:
    """A thread starts on device 0, whatever others have chosen."""
    seen: list[int] = []
    last = torch.accelerator.device_count() - 1
    with torch.accelerator.device_index(last):
        thread = threading.Thread(target=lambda: seen.append(torch.accelerator.current_device_index()))
        thread.start()
        thread.join()
        current_is(last)
    assert seen == [0]


def test_set_device_chooses(module: Any, other: torch.device) -> None:
    """set_device changes the current device, for torch.accelerator and the device module alike."""
    torch.accelerator.set_device_index(other.index)
    current_is(other.index)
    assert module.current_device() == other.index
    module.set_device(0)
    current_is(0)


def test_device_index_is_undone(other: torch.device) -> None:
    """`with torch.accelerator.device_index(1)` restores the device before, even after an exception."""
    with contextlib.suppress(KeyError), torch.accelerator.device_index(other.index):
        current_is(other.index)
        raise KeyError
    current_is(0)


@pytest.mark.parametrize("make", ["tensor", "current"])
def test_index_beyond_the_last_is_refused(device: str, make: str) -> None:
    """A device that does not exist is an error, and leaves the current device as it is."""
    beyond = torch.accelerator.device_count()
    before = torch.accelerator.current_device_index()
    enter = {
        "tensor": lambda: torch.empty(1, device=f"{device}:{beyond}"),
        "current": lambda: torch.accelerator.set_device_index(beyond),
    }[make]
    with pytest.raises((RuntimeError, ValueError, AssertionError)):
        enter()
    current_is(before)


def test_synchronize_returns(module: Any, device: str) -> None:
    """All ways to wait for the device return, with and without a device argument."""
    x = torch.ones(8, device=device) * 2
    for wait in (torch.accelerator.synchronize, module.synchronize):
        wait()
        wait(x.device)
        wait(0)
    assert x.sum().item() == 16


@level("usable")
@chapter("errors")
def test_process_ends_with_status_0(device: str, run_process: Callable[[str], CompletedProcess[str]]) -> None:
    """A process that has used the device, and still has tensors on it, ends without a crash or a hang."""
    ended = run_process(f"""
        x = torch.ones(1000, device={device!r}, requires_grad=True)
        (x * 2).sum().backward()
        print(x.grad.sum().item())
    """)
    assert ended.returncode == 0, f"status {ended.returncode}; its last words: {ended.stderr[-300:]}"
    assert ended.stdout.split()[-1] == "2000.0"


@level("usable")
@chapter("autoload")
def test_import_leaves_the_device_to_forked_processes(
    device: str, run_process: Callable[[str], CompletedProcess[str]]
) -> None:
    """After `import torch` alone, a forked process can use the device: importing starts nothing."""
    ended = run_process(f"""
        import os
        if child := os.fork():
            raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        assert (torch.ones(3, device={device!r}) + 1).tolist() == [2, 2, 2]
        os._exit(0)
    """)
    assert ended.returncode == 0, f"status {ended.returncode}; its last words: {ended.stderr[-300:]}"


@level("usable")
@chapter("autoload")
def test_forked_process_is_refused_once_the_device_is_in_use(
    device: str, run_process: Callable[[str], CompletedProcess[str]]
) -> None:
    """After the first use, a forked process gets an exception or right values from the device, no crash or hang."""
    ended = run_process(f"""
        import os
        torch.ones(3, device={device!r})
        if child := os.fork():
            raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        try:
            total = torch.ones(3, device={device!r}).sum().item()
        except RuntimeError as error:
            print(error)
            os._exit(0)
        # A driver that survives a fork is welcome.
        assert total == 3, f"three ones are {{total}} in a forked process"
        os._exit(0)
    """)
    assert ended.returncode == 0, f"status {ended.returncode}; its last words: {ended.stderr[-300:]}"
