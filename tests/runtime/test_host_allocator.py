from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE
from tests.runtime.busy import held, sleep_on


def test_pinned_memory_is_known_as_such() -> None:
    x = torch.arange(1000.0)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned[10:20].is_pinned()
    assert pinned.device.type == "cpu"
    assert torch.equal(pinned, x)
    assert torch.empty(3, pin_memory=True).is_pinned()


def test_an_empty_tensor_can_be_pinned() -> None:
    assert torch.empty(0).pin_memory().numel() == 0


def test_copies_from_and_to_pinned_memory_do_not_wait() -> None:
    x = torch.arange(100_000.0).pin_memory()
    y = x.to("openreg", non_blocking=True)
    back = torch.empty_like(x, pin_memory=True)
    back.copy_(y.abs(), non_blocking=True)
    del y
    torch.accelerator.synchronize()
    assert torch.equal(back, torch.arange(100_000.0))


def test_pinned_memory_outlives_its_tensor_until_the_copy_is_done() -> None:
    results = []
    for n in range(20):
        results.append(torch.full((50_000,), float(n)).pin_memory().to("openreg", non_blocking=True))
    assert [r[-1].item() for r in results] == [float(n) for n in range(20)]


def test_data_loader_pins() -> None:
    loader = DataLoader(TensorDataset(torch.arange(12.0)), batch_size=4, pin_memory=True)
    batches = [batch for (batch,) in loader]
    assert all(batch.is_pinned() for batch in batches)
    assert torch.cat([b.to("openreg", non_blocking=True) for b in batches]).tolist() == list(map(float, range(12)))


def test_data_loader_with_workers_after_the_device_was_used() -> None:
    x = torch.ones(3, device="openreg")
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=2, num_workers=2, multiprocessing_context="fork")
    assert torch.cat([b for (b,) in loader]).tolist() == list(map(float, range(8)))
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_device_tensors_cannot_be_pinned() -> None:
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="openreg").pin_memory()
    with pytest.raises(RuntimeError, match="only CPU tensors can be pinned"):
        torch.empty(2, device="openreg", pin_memory=True)


def test_pinned_memory_is_cached_and_can_be_given_back() -> None:
    torch.accelerator.empty_host_cache()
    before = torch.openreg.host_memory_stats()
    x = torch.empty(5000, dtype=torch.uint8, pin_memory=True)
    address = x.data_ptr()
    stats = torch.openreg.host_memory_stats()
    assert stats["active_bytes.current"] - before["active_bytes.current"] == 8192  # the next power of two
    del x
    assert torch.empty(6000, dtype=torch.uint8, pin_memory=True).data_ptr() == address
    torch.accelerator.empty_host_cache()
    stats = torch.openreg.host_memory_stats()
    assert stats["allocated_bytes.current"] == before["allocated_bytes.current"]
    assert stats["num_host_free"] == before["num_host_free"] + 1


def test_emptying_the_cache_lets_other_python_threads_run() -> None:
    torch.empty(1 << 20, dtype=torch.uint8, pin_memory=True)  # goes to the cache
    # A Python function holds the stream, and a Python thread releases it: the driver waits for it before it frees.
    with held(torch.Stream("openreg:0")) as gate:
        threading.Timer(0.05, gate.set).start()
        torch.accelerator.empty_host_cache()
        stats = torch.openreg.host_memory_stats()
        # Tensors of other tests may still be in use.
        assert stats["allocated_bytes.current"] == stats["active_bytes.current"] < 1 << 20


def test_peaks_and_totals_can_be_reset() -> None:
    pinned = torch.empty(1 << 20, dtype=torch.uint8, pin_memory=True)
    del pinned
    torch.openreg.reset_peak_host_memory_stats()
    stats = torch.openreg.host_memory_stats()
    assert stats["active_bytes.peak"] == stats["active_bytes.current"]
    assert stats["allocations.allocated"] > 0
    torch.openreg.reset_accumulated_host_memory_stats()
    assert torch.openreg.host_memory_stats()["allocations.allocated"] == 0


def test_a_block_is_not_reused_while_a_copy_needs_it() -> None:
    stream = torch.Stream("openreg:0")
    source = torch.full((10_000,), 3.0).pin_memory()
    address = source.data_ptr()
    with stream:
        sleep_on(stream, 200)
        y = source.to("openreg:0", non_blocking=True)
    assert not stream.query()  # the host did not wait
    del source
    other = torch.empty(10_000).pin_memory()
    other.fill_(9)
    assert other.data_ptr() != address
    with stream:
        assert y.tolist() == [3.0] * 10_000
    del other
    assert address in {torch.empty(10_000).pin_memory().data_ptr() for _ in range(1)} | {
        t.data_ptr() for t in [torch.empty(10_000).pin_memory() for _ in range(2)]
    }


OTHERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "DLPack": lambda pinned: torch.from_dlpack(pinned[100:]),
    "NumPy": lambda pinned: torch.from_numpy(pinned.numpy()[100:]),
    "a buffer": lambda pinned: torch.frombuffer(pinned.numpy(), dtype=torch.float32, offset=400),
}


@pytest.mark.parametrize("through", OTHERS.values(), ids=OTHERS)
def test_a_block_is_not_reused_while_a_copy_needs_a_part_of_it(
    through: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """The part begins inside the block, and PyTorch's cache knows only where that begins."""
    stream = torch.Stream("openreg:0")
    source, result = torch.full((10_000,), 3.0).pin_memory(), torch.zeros(10_000).pin_memory()
    there = torch.full((9_900,), 5.0, device="openreg:0")
    torch.accelerator.synchronize()
    blocks = {source.data_ptr(), result.data_ptr()}
    source, result = through(source), through(result)
    assert source.is_pinned()
    with stream:
        sleep_on(stream, 200)
        y = source.to("openreg:0", non_blocking=True)
        result.copy_(there, non_blocking=True)
    assert not stream.query()
    del source, result
    others = [torch.full((10_000,), 9.0).pin_memory() for _ in range(2)]
    assert blocks.isdisjoint(other.data_ptr() for other in others)
    stream.synchronize()
    assert y.tolist() == [3.0] * 9_900
    assert all(torch.equal(other, torch.full((10_000,), 9.0)) for other in others)
    assert blocks <= {each.data_ptr() for each in [torch.empty(10_000).pin_memory() for _ in range(4)]}


@pytest.mark.needs("host kernels")
def test_a_copy_that_converts_overlaps() -> None:
    stream = torch.Stream(LAST_DEVICE)
    source = torch.arange(10_000).pin_memory()
    back = torch.zeros(10_000, dtype=torch.int16).pin_memory()
    with stream:
        sleep_on(stream, 100)
        there = torch.zeros(20_000, device=LAST_DEVICE)[::2]
        there.copy_(source, non_blocking=True)
        back.copy_(there, non_blocking=True)
    assert not stream.query()  # the host did not wait
    del source
    torch.empty(10_000, dtype=torch.int64).pin_memory().fill_(9)  # must not reuse memory that the copy still reads
    assert back.sum() == 0
    stream.synchronize()
    assert torch.equal(back, torch.arange(10_000, dtype=torch.int16))
    assert torch.equal(there.cpu(), torch.arange(10_000.0))


def test_a_copy_to_pinned_memory_overlaps() -> None:
    stream = torch.Stream("openreg:0")
    x = torch.arange(10_000.0, device="openreg:0")
    torch.accelerator.synchronize()
    back = torch.zeros(10_000).pin_memory()
    with stream:
        sleep_on(stream, 100)
        back.copy_(x, non_blocking=True)
        done = stream.record_event()
    assert not done.query()
    assert back.tolist() == [0.0] * 10_000
    done.synchronize()
    assert torch.equal(back, torch.arange(10_000.0))


@pytest.mark.needs("simulator")
def test_a_forked_child_pins_nothing(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, torch
        torch.ones(1, device="openreg")
        pinned = torch.empty(1024).pin_memory()
        del pinned  # a block of this size is in the cache
        if (child := os.fork()) == 0:
            for size in (1024, 1 << 20):
                for pin in (lambda: torch.empty(size).pin_memory(), lambda: torch.empty(size, pin_memory=True)):
                    try:
                        pin()
                        print("pinned", size, flush=True)
                    except RuntimeError as error:
                        print(str(error).partition(":")[0], flush=True)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print(torch.empty(1024).pin_memory().is_pinned())
        """
    )
    assert done.stdout.split() == ["orErrorForked"] * 4 + ["True"], done.stderr


@pytest.mark.needs("queue")
def test_figures_of_a_busy_cache_raise_in_a_forked_child(run_process: RunProcess) -> None:
    """Another thread holds the cache's locks, and waits for the device."""
    done = run_process("""
        import os, signal, threading, time, torch
        openreg = torch.openreg
        pinned = torch.empty(1 << 20).pin_memory()
        stream = torch.Stream("openreg")
        del pinned
        with stream:
            openreg._sleep(1_500_000_000)
        emptier = threading.Thread(target=torch.accelerator.empty_host_cache)
        emptier.start()
        time.sleep(0.3)
        if (child := os.fork()) == 0:
            signal.alarm(20)
            for ask in (openreg.host_memory_stats, openreg.reset_peak_host_memory_stats):
                try:
                    ask()
                except RuntimeError as error:
                    print("forked" in str(error), flush=True)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        emptier.join()
        """)
    assert done.stdout.split() == ["True", "True", "0"], done.stderr
