"""Lazy initialization: which calls start the device, which wait for it, and the error in a forked process."""

from __future__ import annotations

import pytest

from tests.conftest import RunProcess

BAD_FORK = (
    "Cannot re-initialize openreg in forked subprocess: its device threads do not exist here. To use openreg with "
    "multiprocessing, you must use the 'spawn' start method, or first use openreg after the fork."
)


@pytest.mark.parametrize(
    "call",
    [
        "torch.manual_seed(1)",
        "torch.device('openreg:1')",
        "torch.accelerator.is_available()",
        "assert torch.openreg.memory_allocated() == torch.openreg.max_memory_reserved('openreg:1') == 0",
        "torch.openreg.memory_stats(); torch.openreg.reset_peak_memory_stats(1)",
    ],
)
def test_calls_that_use_no_device_put_none_into_use(call: str, run_process: RunProcess) -> None:
    done = run_process(f"import torch; {call}; print(torch.openreg.is_initialized(), torch.openreg._initialized)")
    assert done.stdout == "False False\n", done.stderr


def test_a_seed_given_before_the_first_use_holds(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        torch.manual_seed(5)
        first = torch.rand(4, device="openreg").tolist()
        torch.manual_seed(5)
        assert torch.rand(4, device="openreg").tolist() == first
        count = torch.accelerator.device_count()
        assert [torch.openreg.get_rng_state(i)[0].item() for i in range(count)] == [5] * count
        """
    )
    assert done.returncode == 0, done.stderr


def test_queued_calls_are_made_once_and_in_order(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        from torch_openreg.openreg._lazy import _lazy_call
        for number in range(3):
            _lazy_call(lambda number=number: print(number))
        torch.openreg.init()
        torch.ones(1, device="openreg")
        _lazy_call(lambda: print("at once"))
        """
    )
    assert done.stdout == "0\n1\n2\nat once\n", done.stderr


def test_a_queued_call_that_fails_is_raised_once_with_its_place(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        from torch_openreg.openreg import _lazy
        def fails():
            raise ValueError("a bad seed")
        _lazy._lazy_call(fails)
        _lazy._lazy_call(lambda: print("the next one"))
        try:
            torch.ones(1, device="openreg")
        except ValueError as error:
            assert error.__notes__[0].startswith("The call waited for the first use of openreg. It was made here:")
            assert "line 6" in error.__notes__[0]
        assert not torch.openreg.is_initialized()
        torch.ones(1, device="openreg")
        assert torch.openreg.is_initialized()
        """
    )
    assert (done.returncode, done.stdout) == (0, "the next one\n"), done.stderr


def test_a_queued_call_may_use_the_device(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        from torch_openreg.openreg._lazy import _lazy_call
        _lazy_call(lambda: print(torch.ones(1, device="openreg").item(), torch.openreg.is_initialized()))
        torch.openreg.init()
        """
    )
    assert done.stdout == "1.0 False\n", done.stderr


def test_a_second_thread_waits_for_the_queued_calls(run_process: RunProcess) -> None:
    done = run_process(
        """
        import threading, torch
        from torch_openreg.openreg._lazy import _lazy_call
        entered, order = threading.Event(), []
        def slow():
            entered.set()
            other.join(0.2)
            order.append("queued call")
        def use():
            entered.wait()
            torch.ones(1, device="openreg")
            order.append("other thread")
        other = threading.Thread(target=use)
        other.start()
        _lazy_call(slow)
        torch.openreg.init()
        other.join()
        print(order)
        """
    )
    assert done.stdout == "['queued call', 'other thread']\n", done.stderr


def test_a_driver_that_cannot_start_is_asked_again(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, torch
        for use in (torch.openreg.init, lambda: torch.ones(1, device="openreg")):
            try:
                use()
            except RuntimeError as error:
                assert "OPENREG_DEVICE_COUNT is 'none'" in str(error), error
            else:
                raise AssertionError("no error")
        assert not torch.openreg.is_initialized()
        os.environ["OPENREG_DEVICE_COUNT"] = "2"
        print(torch.ones(1, device="openreg:1").device)
        """,
        OPENREG_DEVICE_COUNT="none",
    )
    assert done.stdout == "openreg:1\n", done.stderr


def test_every_way_of_using_the_device_in_a_bad_fork_gives_the_known_message(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, torch
        torch.ones(1, device="openreg")
        if (child := os.fork()) == 0:
            for use in (
                torch.openreg.init,
                lambda: torch.ones(1, device="openreg"),
                lambda: torch.ones(1).to("openreg"),
                lambda: torch.openreg.set_device(0),
                lambda: torch.openreg.manual_seed(0),
                torch.accelerator.current_device_index,
            ):
                try:
                    use()
                except RuntimeError as error:
                    print(error, flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert done.stdout == 6 * f"{BAD_FORK}\n", (done.stdout, done.stderr)


def test_a_driver_that_was_only_asked_for_devices_makes_a_bad_fork_too(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, torch
        assert torch.accelerator.is_available() and not torch.openreg.is_initialized()
        if (child := os.fork()) == 0:
            try:
                torch.ones(1, device="openreg")
            except RuntimeError as error:
                print(error, flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert done.stdout == f"{BAD_FORK}\n", done.stderr


def test_a_fork_waits_for_a_start_in_another_thread(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, threading, time, torch
        from torch_openreg.openreg import _lazy
        entered = threading.Event()
        _lazy._lazy_call(lambda: (entered.set(), time.sleep(0.2)))
        thread = threading.Thread(target=torch.openreg.init)
        thread.start()
        entered.wait()
        if (child := os.fork()) == 0:
            free = []
            asks = threading.Thread(target=lambda: free.append(_lazy._lock.acquire(blocking=False)))
            asks.start()
            asks.join()
            os._exit(int(free != [True]))
        assert os.waitpid(child, 0)[1] == 0
        thread.join()
        assert torch.ones(1, device="openreg").item() == 1
        """
    )
    assert done.returncode == 0, done.stderr


def test_seeds_that_wait_replace_each_other(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        from torch_openreg.openreg import _lazy
        for seed in range(100):
            torch.manual_seed(seed)
        torch.openreg.manual_seed(7)
        assert len(_lazy._queued) == 2
        assert torch.openreg.initial_seed() == 7
        """
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("appended_first", [False, True])
def test_a_signal_handler_uses_the_device_while_its_thread_queues(
    appended_first: bool, run_process: RunProcess
) -> None:
    done = run_process(
        f"""
        import signal, torch
        from torch_openreg.openreg import _lazy

        class Interrupted(list):
            def append(self, call):
                if {appended_first}:
                    super().append(call)
                signal.raise_signal(signal.SIGUSR1)
                if not {appended_first}:
                    super().append(call)

        signal.signal(signal.SIGUSR1, lambda *_: print(torch.ones(1, device="openreg").item()))
        _lazy._queued = Interrupted()
        torch.manual_seed(3)
        print(torch.openreg.initial_seed(), _lazy._queued)
        """
    )
    assert done.stdout == "1.0\n3 []\n", done.stderr


def test_a_queued_call_may_fork(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, torch
        from torch_openreg.openreg._lazy import _lazy_call
        def forks():
            child = os.fork()
            if child == 0:
                os._exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        _lazy_call(forks)
        print(torch.ones(1, device="openreg").item())
        """
    )
    assert done.stdout == "7\n1.0\n", done.stderr


def test_a_seed_for_all_devices_replaces_those_before_it(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        from torch_openreg.openreg import _lazy
        for _ in range(3):
            torch.openreg.manual_seed(1)
            torch.openreg.seed()
            torch.openreg.seed_all()
        print(len(_lazy._queued))
        torch.manual_seed(5)
        print(len(_lazy._queued), torch.openreg.initial_seed())
        """
    )
    assert done.stdout == "1\n1 5\n", done.stderr


def test_a_program_may_end_in_a_mode(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        class Refuses(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                raise RuntimeError(f"the mode sees {function}")
        x = torch.ones(2, device="openreg", requires_grad=True)
        x.sum().backward()
        mode = Refuses().__enter__()
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
