"""Device memory: allocation, reuse, statistics, running out, and pinned host memory."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch

from accelerator_conformance.checks import chapter, level, not_offered, optional

pytestmark = chapter("memory")
MIB = 1 << 20
LARGE_DEVICE = 1 << 38  # bytes; of a device that does not say how much it has


def test_tensors_have_memory_of_their_own(device: str) -> None:
    """Writing to one tensor changes no other."""
    tensors = [torch.full((257,), float(index), device=device) for index in range(20)]
    for index, tensor in enumerate(tensors):
        assert tensor.tolist() == [float(index)] * 257, "two tensors share memory"


def test_empty_tensors(device: str) -> None:
    """A tensor without elements has a shape, a device and no values."""
    x = torch.empty(0, 3, device=device)
    assert x.tolist() == []
    assert (x + 1).shape == (0, 3)
    assert x.sum().item() == 0


def test_addresses_are_aligned(device: str) -> None:
    """Memory is aligned to at least 16 bytes, which vectorized kernels rely on."""
    addresses = [torch.empty(size, dtype=torch.uint8, device=device).data_ptr() for size in (1, 3, 100, 4097)]
    assert not any(address % 16 for address in addresses), [hex(address) for address in addresses]


def test_freed_memory_comes_back(device: str) -> None:
    """Freed memory is reused: ten thousand tensors, one after the other, take more than the device has."""
    try:
        total = torch.accelerator.get_memory_info(f"{device}:0")[1]
    except (AttributeError, NotImplementedError, RuntimeError):
        total = LARGE_DEVICE
    for _ in range(10_000):
        torch.empty(max(4 * MIB, total // 5_000), dtype=torch.uint8, device=device)
    assert torch.ones(4, device=device).sum().item() == 4


def test_too_much_is_an_out_of_memory_error(device: str) -> None:
    """Allocating too much raises torch.OutOfMemoryError, and the device stays usable."""
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 50, dtype=torch.uint8, device=device)
    assert torch.ones(4, device=device).sum().item() == 4


@level("usable")
def test_lazy_clone_is_copied_when_written(device: str) -> None:
    """`copy_data`, or a kernel of `_lazy_clone`: of a lazy clone and its source, each has values of its own."""
    x = torch.arange(1000.0, device=device)
    clone = torch._lazy_clone(x)
    clone.add_(1)
    assert x.tolist() == list(range(1000)), "what was written to a lazy clone is seen in its source"
    assert clone.tolist() == list(range(1, 1001)), "a lazy clone lost its values when it was written"


@pytest.fixture
def counted(device: str) -> Callable[[], int]:
    """The function that counts the bytes of tensors, if the backend has it."""
    gc.collect()  # tensors in cycles of earlier checks must not be freed while this one counts
    torch.ones(1, device=device)
    try:
        torch.accelerator.memory_allocated()
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        not_offered(f"torch.accelerator.memory_allocated: {str(error).partition(chr(10))[0]}")
    return torch.accelerator.memory_allocated


@level("usable")
def test_allocated_memory_is_counted(device: str, counted: Callable[[], int]) -> None:
    """memory_allocated rises by what a tensor takes, and falls when it is gone."""
    before = counted()
    x = torch.empty(3 * MIB, dtype=torch.uint8, device=device)
    assert 3 * MIB <= counted() - before < 6 * MIB, f"3 MiB were allocated, and {counted() - before} bytes counted"
    del x
    assert counted() == before, "memory of a tensor that is gone is still counted"


@level("usable")
def test_peak_is_counted_and_reset(device: str, counted: Callable[[], int]) -> None:
    """max_memory_allocated keeps the peak until it is reset."""
    torch.accelerator.reset_peak_memory_stats()
    before = counted()
    torch.empty(3 * MIB, dtype=torch.uint8, device=device)
    assert torch.accelerator.max_memory_allocated() >= before + 3 * MIB, "the peak is below what was allocated"
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == counted()


@level("usable")
def test_accumulated_statistics_are_reset(device: str, counted: Callable[[], int]) -> None:
    """Allocated bytes accumulate from the start, and from 0 again after a reset."""

    def allocated() -> int:
        return int(torch.accelerator.memory_stats().get("allocated_bytes.all.allocated", 0))

    before = allocated()
    kept = torch.empty(3 * MIB, dtype=torch.uint8, device=device)
    assert allocated() >= before + 3 * MIB, "memory that was allocated is not in memory_stats()"
    in_use = counted()
    torch.accelerator.reset_accumulated_memory_stats()
    assert allocated() == 0, "reset_accumulated_memory_stats left what was allocated before"
    assert counted() == in_use, "a reset of statistics changed how much memory is in use"
    del kept


@level("usable")
def test_empty_cache_gives_back(device: str, counted: Callable[[], int]) -> None:
    """empty_cache releases memory that is reserved and not used."""
    torch.empty(64 * MIB, dtype=torch.uint8, device=device)
    torch.accelerator.synchronize()
    reserved = torch.accelerator.memory_reserved()
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() <= max(reserved - 64 * MIB, counted())


@level("usable")
def test_devices_count_apart(other: torch.device, counted: Callable[[], int]) -> None:
    """Memory of one device is not counted for the other."""
    before = counted()
    x = torch.empty(3 * MIB, dtype=torch.uint8, device=other)
    assert counted() == before, "memory of the second device is counted for the first"
    assert torch.accelerator.memory_allocated(other) >= x.nbytes


@level("usable")
def test_memory_info(device: str) -> None:
    """get_memory_info returns the free and the total memory."""
    with optional():
        free, total = torch.accelerator.get_memory_info(f"{device}:0")
    assert 0 < free <= total


@level("usable")
@chapter("stream")
def test_memory_of_one_stream_waits_for_another(
    device: str, counted: Callable[[], int], busy: Callable[[float], None]
) -> None:
    """After record_stream, freed memory is not reused while that stream may read it."""
    with optional():
        side = torch.Stream(f"{device}:0")
    x = torch.full((MIB,), 7.0, device=device)
    torch.accelerator.synchronize()
    with side:
        busy(0.2)
        seen = x.clone()
    x.record_stream(side)
    del x
    others = [torch.zeros(MIB, device=device) for _ in range(4)]
    side.synchronize()
    assert seen[:8].tolist() == [7.0] * 8, "memory was handed out while a stream was about to read it"
    assert seen.eq(7).all().item()
    del others


@level("usable")
@chapter("host_memory")
def test_pinned_memory_is_copied_behind_the_hosts_back(device: str, busy: Callable[[float], None]) -> None:
    """A non-blocking copy from pinned memory is queued, and arrives."""
    with optional():
        source = torch.arange(1000.0).pin_memory()
    x = torch.zeros(1000, device=device)
    torch.accelerator.synchronize()
    busy(0.2)
    x.copy_(source, non_blocking=True)
    assert not torch.accelerator.current_stream().query(), "a non-blocking copy from pinned memory waited"
    torch.accelerator.synchronize()
    assert torch.equal(x.cpu(), torch.arange(1000.0))


@level("usable")
@chapter("host_memory")
def test_pinned_memory_is_kept_until_the_copy_is_done(device: str, busy: Callable[[float], None]) -> None:
    """Pinned memory that is freed while a copy reads it is not reused."""
    with optional():
        source = torch.full((MIB,), 7.0).pin_memory()
    x = torch.zeros(MIB, device=device)
    torch.accelerator.synchronize()
    busy(0.2)
    x.copy_(source, non_blocking=True)
    del source
    others = [torch.zeros(MIB).pin_memory().fill_(-1) for _ in range(4)]
    torch.accelerator.synchronize()
    assert x.eq(7).all().item(), "pinned memory was handed out while a copy was about to read it"
    del others


@level("usable")
@chapter("host_memory")
def test_empty_host_cache_leaves_what_is_in_use(device: str) -> None:
    """torch.accelerator.empty_host_cache releases unused pinned memory, and no other."""
    with optional():
        kept, gone = torch.arange(1000.0).pin_memory(), torch.zeros(1000).pin_memory()
        del gone
        torch.accelerator.empty_host_cache()
    assert kept.is_pinned()
    assert kept.to(device, non_blocking=True).tolist() == list(range(1000))
    assert torch.ones(1000).pin_memory().is_pinned(), "nothing can be pinned after empty_host_cache"


@level("usable")
@chapter("host_memory")
def test_data_loader_pins(device: str) -> None:
    """A DataLoader with pin_memory=True gives batches of pinned memory."""
    with optional():
        torch.zeros(1).pin_memory()
    loader = torch.utils.data.DataLoader(torch.arange(8.0).split(1), batch_size=4, pin_memory=True)
    batches = list(loader)
    assert all(batch.is_pinned() for batch in batches), "a batch is not pinned"
    assert torch.cat([batch.to(device, non_blocking=True) for batch in batches]).flatten().tolist() == list(range(8))
