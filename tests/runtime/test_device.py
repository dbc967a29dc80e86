from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch

from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE
from tests.runtime.busy import sleep_on

pytestmark = pytest.mark.usefixtures("first_device")
COUNT = torch.accelerator.device_count()
LAST = COUNT - 1
VALID_RANGE = f"device index {COUNT} was asked for, but the valid indices are 0 to {LAST}"


@pytest.mark.needs("two devices")
def test_two_devices_by_default() -> None:
    assert torch.openreg.device_count() == 2
    assert torch.openreg.is_available()
    assert torch.accelerator.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("openreg")


def test_set_device_is_what_new_tensors_use() -> None:
    torch.openreg.set_device(LAST)
    assert torch.openreg.current_device() == LAST
    assert torch.empty(1, device="openreg").device == torch.device(LAST_DEVICE)
    torch.openreg.set_device("openreg:0")
    assert torch.empty(1, device="openreg").device == torch.device("openreg:0")


def test_device_context_restores_the_device_also_after_an_exception() -> None:
    with torch.openreg.device(LAST):
        assert torch.openreg.current_device() == LAST
        with torch.openreg.device("openreg"):
            assert torch.openreg.current_device() == LAST
    assert torch.openreg.current_device() == 0
    with pytest.raises(KeyError), torch.openreg.device(torch.device(LAST_DEVICE)):
        raise KeyError
    assert torch.openreg.current_device() == 0


def test_a_device_context_without_a_device_restores_nothing() -> None:
    torch.openreg.set_device(LAST)
    for nothing in (None, -1, "openreg"):
        with torch.openreg.device(nothing):
            assert torch.openreg.current_device() == LAST
            torch.openreg.set_device(0)
        assert torch.openreg.current_device() == 0
        torch.openreg.set_device(LAST)


def test_a_device_context_can_be_entered_again() -> None:
    context = torch.openreg.device(LAST)
    for before in (0, LAST, 0):
        torch.openreg.set_device(before)
        with context:
            assert torch.openreg.current_device() == LAST
        assert torch.openreg.current_device() == before


def test_accelerator_and_device_module_agree() -> None:
    torch.accelerator.set_device_index(LAST)
    assert torch.openreg.current_device() == torch.accelerator.current_device_index() == LAST
    with torch.accelerator.device_index(0):
        assert torch.openreg.current_device() == 0
    torch.accelerator.set_stream(torch.Stream("openreg:0"))
    assert torch.openreg.current_device() == 0
    torch.accelerator.set_stream(torch.openreg.default_stream(0))


def test_synchronize_waits_for_the_device_that_is_named() -> None:
    stream = torch.accelerator.current_stream(LAST)
    sleep_on(stream, 200)
    for other in range(LAST):
        with torch.openreg.device(other):
            torch.openreg.synchronize()
        assert not stream.query()
    torch.openreg.synchronize(LAST_DEVICE)
    assert stream.query()
    assert torch.openreg.current_device() == 0


@pytest.mark.needs("two devices")
def test_the_current_device_belongs_to_the_thread() -> None:
    seen: list[int] = []
    torch.openreg.set_device(1)
    thread = threading.Thread(target=lambda: seen.append(torch.openreg.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]
    assert torch.openreg.current_device() == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.empty(1, device=f"openreg:{COUNT}"),
        lambda: torch.ones(2).to(f"openreg:{COUNT}"),
        lambda: torch.openreg.set_device(COUNT),
        lambda: torch.openreg.synchronize(COUNT),
        lambda: torch.openreg.device(COUNT).__enter__(),
        lambda: torch.openreg.get_device_properties(COUNT),
        lambda: torch.accelerator.synchronize(COUNT),
        lambda: torch.accelerator.current_stream(COUNT),
        lambda: torch.accelerator.get_device_capability(COUNT),
        lambda: torch.accelerator.device_index(COUNT).__enter__(),
        lambda: torch.accelerator.memory_stats(COUNT),
        lambda: torch.Stream(f"openreg:{COUNT}"),
        lambda: torch.UntypedStorage(4, device=f"openreg:{COUNT}"),
        lambda: torch.accelerator.set_device_index(COUNT),
        lambda: torch.Generator(f"openreg:{COUNT}"),
        lambda: torch.openreg.get_rng_state(f"openreg:{COUNT}"),
    ],
)
def test_an_index_out_of_range_names_the_valid_ones(use: object) -> None:
    assert callable(use)
    with pytest.raises(RuntimeError, match=VALID_RANGE):
        use()
    assert torch.openreg.current_device() == 0


@pytest.mark.parametrize("use", [torch.openreg.set_device, torch.openreg.synchronize, torch.openreg.get_rng_state])
def test_an_index_beyond_eight_bits_is_not_cut_off(use: Callable[[int], object]) -> None:
    with pytest.raises(RuntimeError, match=f"device index 300 was asked for, but the valid indices are 0 to {LAST}"):
        use(300)


def test_index_99_with_context() -> None:
    with pytest.raises(RuntimeError, match="device index 99 was asked for"), torch.openreg.device(99):
        pass


def test_a_device_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a device of openreg is needed, got 'cpu'"):
        torch.openreg.set_device("cpu")


@pytest.mark.parametrize("use", [torch.openreg.set_device, torch.openreg.synchronize, torch.openreg.device])
def test_a_truth_value_is_no_index(use: Callable[[bool], object]) -> None:
    with pytest.raises(TypeError, match=r"^a device is an index, a name or a torch\.device, got True$"):
        use(True)
    assert torch.openreg.current_device() == 0


def test_a_device_context_of_an_index_below_minus_one_is_refused() -> None:
    with pytest.raises(RuntimeError, match="device index -2 was asked for"), torch.openreg.device(-2):
        pass


def test_the_environment_sets_the_number_of_devices(run_process: RunProcess) -> None:
    done = run_process("import torch; print(torch.openreg.device_count())", OPENREG_DEVICE_COUNT="1")
    assert done.stdout == "1\n", done.stderr


def test_a_bad_environment_is_named(run_process: RunProcess) -> None:
    done = run_process("import torch; torch.ones(1, device='openreg')", status=1, OPENREG_DEVICE_COUNT="many")
    assert "OPENREG_DEVICE_COUNT" in done.stderr
    assert "many" in done.stderr


def test_importing_and_seeding_start_no_driver(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        torch.manual_seed(3)
        assert not torch.openreg.is_initialized()
        torch.ones(1, device="openreg")
        assert torch.openreg.is_initialized() and torch.openreg._initialized
        assert torch.openreg.initial_seed() == 3
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_forked_child_gets_an_error_and_does_not_hang(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, sys, torch
        x = torch.ones(4, device="openreg")
        pinned = torch.ones(4).pin_memory()
        pid = os.fork()
        if pid == 0:
            assert torch.openreg._is_in_bad_fork() and not torch.openreg.is_initialized()
            torch.manual_seed(0)  # leaves the device alone
            for use in (lambda: torch.ones(1, device="openreg"), lambda: x + 1, lambda: x.cpu(), torch.openreg.init):
                try:
                    use()
                except RuntimeError as error:
                    assert "fork" in str(error) and "spawn" in str(error), error
                else:
                    raise AssertionError("no error")
            del x, pinned
            sys.stdout.flush()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert (x + 1).tolist() == [2.0] * 4  # the parent goes on
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_backward_on_the_cpu_starts_the_driver_and_so_forbids_a_fork(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, torch
        torch.ones(1, requires_grad=True).sum().backward()
        assert not torch.openreg.is_initialized()
        pid = os.fork()
        if pid == 0:
            try:
                torch.ones(2, device="openreg")
            except RuntimeError as error:
                os._exit("spawn" not in str(error))
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_child_of_a_user_counts_no_devices_and_is_warned_once(run_process: RunProcess) -> None:
    done = run_process(
        f"""
        import os, sys, torch
        torch.openreg.set_device({LAST})
        if (pid := os.fork()) == 0:
            assert torch.openreg.device_count() == torch.openreg.device_count() == 0
            assert not torch.openreg.is_available()
            assert torch.accelerator.memory_stats(0) == {{}}
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert torch.openreg.device_count() == {COUNT}
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("openreg reports no device: orErrorForked: ") == 1


def test_one_device_is_available(run_process: RunProcess) -> None:
    done = run_process("import torch; assert torch.openreg.is_available()", OPENREG_DEVICE_COUNT="1")
    assert done.returncode == 0, done.stderr


def test_a_driver_that_cannot_start_is_asked_again(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, torch
        assert torch.openreg.device_count() == 0
        os.environ["OPENREG_DEVICE_COUNT"] = "1"
        assert torch.openreg.device_count() == 1
        """,
        OPENREG_DEVICE_COUNT="none",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("openreg reports no device: orErrorInitialization: ") == 1


def test_a_child_forked_before_the_first_use_works(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, torch
        pid = os.fork()
        if pid == 0:
            assert torch.ones(2, device="openreg").tolist() == [1.0, 1.0]
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert torch.ones(2, device="openreg").tolist() == [1.0, 1.0]
        """
    )
    assert done.returncode == 0, done.stderr
