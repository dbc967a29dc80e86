from __future__ import annotations

import gc
import threading

import pytest
import torch

from tests.conftest import RunProcess

MIB = 1 << 20


@pytest.fixture(autouse=True)
def empty() -> None:
    gc.collect()
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats()


def allocated(device: int = 0) -> int:
    return torch.accelerator.memory_allocated(device)


def test_statistics_follow_allocation_and_release() -> None:
    torch.empty(0, device="openreg")
    before, reserved = allocated(), torch.accelerator.memory_reserved()
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="openreg")
    assert allocated() - before == 4 * MIB  # rounded up to the unit of large blocks
    assert torch.accelerator.memory_reserved() - reserved == 4 * MIB
    del x
    assert allocated() == before
    assert torch.accelerator.memory_reserved() - reserved == 4 * MIB
    assert torch.accelerator.max_memory_allocated() - before == 4 * MIB
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() == reserved
    stats = torch.accelerator.memory_stats()
    assert stats["requested_bytes.all.peak"] - stats["requested_bytes.all.current"] >= 3 * MIB


def test_a_freed_block_is_handed_out_again() -> None:
    x = torch.empty(1000, device="openreg")
    address = x.data_ptr()
    del x
    assert torch.empty(1000, device="openreg").data_ptr() == address
    # A block that is far too large is not: it would be missing for those who need its size.
    big = torch.empty(64 * MIB, dtype=torch.uint8, device="openreg")
    address = big.data_ptr()
    del big
    assert torch.empty(8 * MIB, dtype=torch.uint8, device="openreg").data_ptr() != address


def test_blocks_are_aligned_and_disjoint() -> None:
    tensors = [torch.full((n,), float(n), device="openreg") for n in range(1, 200)]
    assert all(t.data_ptr() % 512 == 0 for t in tensors)
    for n, tensor in enumerate(tensors, start=1):
        assert tensor.tolist() == [float(n)] * n


def test_each_device_has_its_own_memory() -> None:
    before = allocated(0), allocated(1)
    x = torch.empty(2 * MIB, dtype=torch.uint8, device="openreg:1")
    assert (allocated(0), allocated(1)) == (before[0], before[1] + 2 * MIB)
    del x


def test_memory_info() -> None:
    free, total = torch.accelerator.get_memory_info(0)
    assert 0 < free <= total
    x = torch.empty(8 * MIB, dtype=torch.uint8, device="openreg")
    assert torch.accelerator.get_memory_info(0) == (free - 8 * MIB, total)
    del x


def test_out_of_memory_says_what_to_do_and_loses_nothing(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        keep = torch.full((8 << 20,), 7, dtype=torch.uint8, device="openreg")
        del_me = torch.empty(40 << 20, dtype=torch.uint8, device="openreg")
        del del_me                      # cached: 40 MiB that the next allocation may need
        torch.empty(50 << 20, dtype=torch.uint8, device="openreg")  # fits once the cache is emptied
        assert torch.accelerator.memory_stats()["num_alloc_retries"] == 1
        try:
            torch.empty(1 << 40, dtype=torch.uint8, device="openreg")
        except torch.OutOfMemoryError as error:
            text = str(error)
        for part in ("openreg out of memory", "tried to allocate 1099511627776 bytes on openreg:0", "67108864 bytes",
                     "OPENREG_DEVICE_MEMORY"):
            assert part in text, (part, text)
        assert torch.accelerator.memory_stats()["num_ooms"] == 1
        assert (keep == 7).all().item()
        """,
        OPENREG_DEVICE_MEMORY="64M",
    )
    assert done.returncode == 0, done.stderr


def test_many_threads_get_their_own_blocks() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for size in range(1, 120):
            x = torch.full((size,), number, dtype=torch.int32, device=f"openreg:{number % 2}")
            y = x + number
            if y.tolist() != [2 * number] * size:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_profiler_sees_device_memory() -> None:
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        x = torch.empty(2 * MIB, dtype=torch.uint8, device="openreg")
        del x
    events = [e for e in profile.events() if e.name == "[memory]" or e.name == "aten::empty"]
    assert any(e.device_memory_usage == 2 * MIB for e in profile.key_averages() if e.key == "aten::empty"), events


def test_storage_clone_copies_on_the_device() -> None:
    x = torch.arange(5, device="openreg")
    y = torch._lazy_clone(x)
    y.add_(1)
    assert x.tolist() == [0, 1, 2, 3, 4]
    assert y.tolist() == [1, 2, 3, 4, 5]
