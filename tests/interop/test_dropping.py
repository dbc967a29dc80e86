"""What is dropped while its memory is in use: by queued work, by a capture, by another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch

from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE
from torch_openreg import _C


def replayed(work: Callable[[], torch.Tensor]) -> torch.Tensor:
    """The result of the function, captured by this thread and replayed."""
    torch.accelerator.synchronize(LAST_DEVICE)  # what the function reads is written
    graph = torch.accelerator.Graph(capture_error_mode="thread_local")
    with torch.Stream(device=LAST_DEVICE), graph:
        result = work()
    graph.replay()
    torch.accelerator.synchronize(LAST_DEVICE)
    return result


DROPPED = {
    "an import": lambda: torch.from_dlpack(torch.ones(5, device=LAST_DEVICE).__dlpack__()),
    "shared memory": lambda: torch.ones(5, device=LAST_DEVICE).share_memory_(),
}


@pytest.mark.needs("queue", "kernels")
def test_ctrl_c_does_not_end_the_wait_of_a_deleter(run_process: RunProcess) -> None:
    ran = run_process(
        """
        import os, signal, threading, torch
        signal.signal(signal.SIGINT, signal.default_int_handler)
        x = torch.from_dlpack(torch.full((1000,), 7.0, device="openreg").__dlpack__())
        torch.openreg._sleep(400_000_000)
        y = x + 1
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            del x
            idle = torch.openreg.current_stream().query()
            for _ in range(1000000):
                pass  # where Python notices the signal
            print("not interrupted")
        except KeyboardInterrupt:
            idle = torch.openreg.current_stream().query()
        print(idle, y[:2].tolist())
        """
    )
    assert (ran.stdout, ran.stderr) == ("True [8.0, 8.0]\n", "")


@pytest.mark.needs("queue", "kernels", "simulator")
def test_a_deleter_leaves_the_mistake_of_a_kernel_to_the_program() -> None:
    x = torch.from_dlpack(torch.ones(5, device="openreg").__dlpack__())
    flags = torch._neg_view(torch.ones(2, dtype=torch.bool, device="openreg"))
    torch.openreg._sleep(50_000_000)
    flags.resolve_neg()
    del x
    with pytest.raises(NotImplementedError, match="neg_cpu"):
        torch.openreg.synchronize()


@pytest.mark.needs("graphs", "kernels", "sharing")
@pytest.mark.parametrize("make", DROPPED.values(), ids=DROPPED.keys())
def test_a_capture_goes_on(make: Callable[[], torch.Tensor]) -> None:
    x, dropped = torch.ones(4, device=LAST_DEVICE), [make()]

    def work() -> torch.Tensor:
        y = x + 1
        dropped.clear()
        return y

    assert replayed(work).tolist() == [2.0] * 4


@pytest.mark.needs("graphs", "kernels", "sharing")
def test_a_tensor_is_sent_while_another_thread_captures() -> None:
    x, sent = torch.ones(4, device=LAST_DEVICE), torch.ones(3, device=LAST_DEVICE)

    def work() -> torch.Tensor:
        y = x + 1
        event = torch.openreg.InterprocessEvent(LAST_DEVICE)
        thread = threading.Thread(target=lambda: (_C._storage_handle(sent.untyped_storage()), event.record()))
        thread.start()
        thread.join()
        return y

    assert replayed(work).tolist() == [2.0] * 4


@pytest.mark.needs("queue", "kernels", "sharing")
def test_two_threads_share_one_storage() -> None:
    x = torch.zeros(1 << 16, device="openreg")
    torch.openreg._sleep(100_000_000)
    x += 1
    handles = []
    threads = [
        threading.Thread(target=lambda: handles.append(_C._storage_handle(x.untyped_storage()))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert handles[0] == handles[1]
    assert x.tolist() == [1.0] * (1 << 16)


@pytest.mark.needs("sharing")
def test_a_storage_of_a_negative_size() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="bytes are more than any device can have"):
        torch.UntypedStorage._new_shared(-65000, device="openreg")


@pytest.mark.needs("queue", "kernels", "sharing")
def test_a_signal_handler_shares_while_its_thread_does(run_process: RunProcess) -> None:
    ran = run_process(
        """
        import os, signal, threading, torch
        x, y = torch.ones(4, device="openreg"), torch.ones(4, device="openreg")
        signal.signal(signal.SIGUSR1, lambda *_: y.share_memory_())
        torch.openreg._sleep(600_000_000)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        x.share_memory_()
        print(x.is_shared(), y.is_shared())
        """
    )
    assert (ran.stdout, ran.stderr) == ("True True\n", "")


@pytest.mark.needs("sharing")
def test_a_signal_handler_shares_while_the_memory_of_a_shared_tensor_is_freed(run_process: RunProcess) -> None:
    """A tool that traces the free runs Python, and with it the handler."""
    ran = run_process(
        """
        import os, signal, torch
        import torch.openreg._gpu_trace as trace
        x, y = torch.ones(4, device="openreg"), torch.ones(4, device="openreg")
        signal.alarm(30)
        signal.signal(signal.SIGUSR1, lambda *_: y.share_memory_())
        freed = []
        def free(pointer):
            if not freed:
                freed.append(pointer)
                os.kill(os.getpid(), signal.SIGUSR1)
        trace.MemoryDeallocationCallbacks.add_callback(free)
        torch._C._activate_gpu_trace()
        x.share_memory_()
        print(x.is_shared(), y.is_shared(), len(freed))
        """
    )
    assert ran.stdout == "True True 1\n", ran.stderr


@pytest.mark.needs("queue", "kernels", "sharing")
def test_a_forked_child_of_a_process_that_shares_gets_its_error(run_process: RunProcess) -> None:
    ran = run_process(
        """
        import os, threading, time, warnings, torch
        warnings.simplefilter("ignore")  # Python's, of a fork in a process with threads
        x, y = torch.ones(4, device="openreg"), torch.ones(4, device="openreg")
        torch.openreg._sleep(600_000_000)
        thread = threading.Thread(target=x.share_memory_)
        thread.start()
        time.sleep(0.2)
        child = os.fork()
        if child == 0:
            try:
                y.share_memory_()
            except RuntimeError as error:
                print("orErrorForked" in str(error), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        thread.join()
        """
    )
    assert (ran.stdout, ran.stderr) == ("True\n", "")


@pytest.mark.needs("queue", "graphs", "kernels")
def test_work_that_was_queued_before_a_capture_still_reads_an_import() -> None:
    x = torch.full((1 << 16,), 7.0, device=LAST_DEVICE)
    capsule = x.__dlpack__(stream=-1)
    torch.accelerator.synchronize(LAST_DEVICE)
    graph = torch.accelerator.Graph(capture_error_mode="thread_local")
    with torch.Stream(LAST_DEVICE):
        y = torch.from_dlpack(capsule)
        del x, capsule
        torch.openreg._sleep(200_000_000)
        z = y + 1
        graph.capture_begin()
        del y
        graph.capture_end()
    torch.full((1 << 16,), 100.0, device=LAST_DEVICE)
    torch.accelerator.synchronize(LAST_DEVICE)
    assert z.unique().tolist() == [8.0]


@pytest.mark.needs("graphs", "kernels", "sharing")
def test_the_end_of_a_capture_frees_what_was_dropped_in_it() -> None:
    x, dropped = torch.ones(4, device=LAST_DEVICE), [torch.ones(8 << 20, device=LAST_DEVICE).share_memory_()]
    torch.accelerator.empty_cache()
    before = torch.openreg.mem_get_info(LAST_DEVICE)[0]

    def work() -> torch.Tensor:
        y = x + 1
        dropped.clear()
        return y

    assert replayed(work).tolist() == [2.0] * 4
    torch.accelerator.empty_cache()
    assert torch.openreg.mem_get_info(LAST_DEVICE)[0] > before + (16 << 20)
