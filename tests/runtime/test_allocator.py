from __future__ import annotations

import ctypes
import gc
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from prerequisites import compiler_command

from tests.conftest import RunProcess
from tests.offers import DEVICES, LAST_DEVICE, library
from tests.runtime.busy import destroy_driver_stream, new_driver_stream, sleep_on
from torch_openreg import _C

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
    x = torch.empty(3 * MIB + 1, dtype=torch.uint8, device="openreg")
    assert allocated() - before == 3 * MIB + 512  # rounded up to the unit of blocks
    assert torch.accelerator.memory_reserved() - reserved == 20 * MIB  # one segment
    del x
    assert allocated() == before
    assert torch.accelerator.memory_reserved() - reserved == 20 * MIB
    assert torch.accelerator.max_memory_allocated() - before == 3 * MIB + 512
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() == reserved
    stats = torch.accelerator.memory_stats()
    assert stats["requested_bytes.all.peak"] - stats["requested_bytes.all.current"] == 3 * MIB + 1


def test_a_freed_block_is_handed_out_again() -> None:
    x = torch.empty(1000, device="openreg")
    address = x.data_ptr()
    del x
    assert torch.empty(1000, device="openreg").data_ptr() == address


def segments(device: int = 0) -> list[dict[str, Any]]:
    snapshot: list[dict[str, Any]] = torch.openreg.memory_snapshot(device)
    return snapshot


def test_a_segment_is_split_and_joined_again() -> None:
    in_use = {segment["address"] for segment in segments()}
    blocks = [torch.empty(3 * MIB, dtype=torch.uint8, device="openreg") for _ in range(3)]
    (segment,) = (s for s in segments() if s["address"] not in in_use)
    states = [(b["size"], b["requested_size"], b["state"]) for b in segment["blocks"]]
    assert states == [(3 * MIB, 3 * MIB, "active_allocated")] * 3 + [(11 * MIB, 0, "inactive")]
    assert (segment["total_size"], segment["allocated_size"]) == (20 * MIB, 9 * MIB)
    del blocks[0], blocks[1]  # the first and the last, which are not adjacent
    (segment,) = (s for s in segments() if s["address"] not in in_use)
    assert [b["size"] for b in segment["blocks"]] == [3 * MIB, 3 * MIB, 14 * MIB]
    stats = torch.accelerator.memory_stats()
    assert stats["inactive_split_bytes.large_pool.current"] == 17 * MIB
    del blocks[0]
    (segment,) = (s for s in segments() if s["address"] not in in_use)
    assert [(b["size"], b["state"]) for b in segment["blocks"]] == [(20 * MIB, "inactive")]
    assert torch.accelerator.memory_stats()["inactive_split_bytes.large_pool.current"] == 0
    torch.accelerator.empty_cache()
    assert {s["address"] for s in segments()} == in_use


def bytes_of(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="openreg")


def test_a_small_block_waits_for_its_size_and_is_joined_when_nothing_else_fits() -> None:
    with torch.Stream("openreg"):  # a new one, without free blocks of its own
        blocks = [bytes_of(512) for _ in range(4)]
        left, right = blocks[0].data_ptr(), blocks[1].data_ptr()
        del blocks[0], blocks[0]
        first, second = bytes_of(512), bytes_of(512)
        assert (first.data_ptr(), second.data_ptr()) == (right, left)
        del first, second
        both = bytes_of(1024)
        assert both.data_ptr() not in (left, right)
        del both
        rest = bytes_of(MIB), bytes_of(MIB - 2048)
        both = bytes_of(1024)
        assert both.data_ptr() == left
        del both, rest


def test_sizes_that_change_share_one_segment() -> None:
    with torch.Stream("openreg"):
        reserved = torch.accelerator.memory_reserved()
        for size in [*range(512, MIB + 1, 512 * 33), *range(MIB, 0, -512 * 37)]:
            address = bytes_of(size).data_ptr()
            again, other = bytes_of(size), bytes_of(512)
            assert again.data_ptr() == address != other.data_ptr()
            del again, other
        assert torch.accelerator.memory_reserved() - reserved == 2 * MIB


def test_a_small_block_waits_for_its_own_stream() -> None:
    streams = torch.Stream("openreg"), torch.Stream("openreg")
    addresses: list[set[int]] = [set(), set()]
    for _ in range(5):
        blocks = []
        for stream, seen in zip(streams, addresses, strict=True):
            with stream:
                blocks += [bytes_of(700), bytes_of(700)]
                seen |= {block.data_ptr() for block in blocks[-2:]}
        del blocks
    assert addresses[0].isdisjoint(addresses[1])
    assert [len(seen) for seen in addresses] == [2, 2]


def test_a_segment_in_use_survives_empty_cache() -> None:
    x = torch.full((3 * MIB,), 7, dtype=torch.uint8, device="openreg")
    reserved = torch.accelerator.memory_reserved()
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() == reserved
    assert (x == 7).all().item()


def test_a_block_is_for_its_own_stream() -> None:
    x = torch.empty(1000, device="openreg:0")
    address = x.data_ptr()
    del x
    with torch.Stream("openreg:0"):
        y = torch.empty(1000, device="openreg:0")
        assert y.data_ptr() != address
    assert torch.empty(1000, device="openreg:0").data_ptr() == address


def read_late_on(stream: torch.Stream) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor of ones, and its abs, which the stream computes only after a sleep."""
    x = torch.ones(1000, device="openreg:0")
    torch.accelerator.synchronize()
    with stream:
        sleep_on(stream, 200)
        return x, x.abs()


@pytest.mark.needs("kernels")
def test_record_stream_keeps_a_block_until_the_stream_is_done() -> None:
    side = torch.Stream("openreg:0")
    x, y = read_late_on(side)
    address = x.data_ptr()
    x.record_stream(side)
    del x
    states = [b["state"] for s in segments() for b in s["blocks"] if b["address"] == address]
    assert states == ["active_awaiting_free"]
    stats = torch.accelerator.memory_stats()
    assert stats["active_bytes.all.current"] - stats["allocated_bytes.all.current"] == 4096
    other = torch.full((1000,), 9.0, device="openreg:0")
    assert other.data_ptr() != address
    side.synchronize()
    assert torch.empty(1000, device="openreg:0").data_ptr() == address
    assert y.tolist() == [1.0] * 1000


def inside(x: torch.Tensor) -> torch.Tensor:
    """A tensor that begins inside the memory: a capsule names the first element alone."""
    return torch.from_dlpack(x[250:])


@pytest.mark.parametrize("view", [torch.conj, torch._neg_view, torch.from_dlpack, inside])
def test_record_stream_of_another_tensor_over_the_memory_is_that_of_the_memory(
    view: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    side = torch.Stream("openreg:0")
    x = torch.ones(1000, dtype=torch.complex64, device="openreg:0")
    address = x.data_ptr()
    sleep_on(side, 100)
    lazy = view(x)
    lazy.record_stream(side)
    del x, lazy
    assert [b["state"] for s in segments() for b in s["blocks"] if b["address"] == address] == ["active_awaiting_free"]


@pytest.mark.needs("kernels")
def test_without_record_stream_the_block_is_handed_out_at_once() -> None:
    side = torch.Stream("openreg:0")
    x, y = read_late_on(side)
    address = x.data_ptr()
    del x
    overwritten = torch.full((1000,), 9.0, device="openreg:0")
    assert overwritten.data_ptr() == address
    torch.accelerator.current_stream().synchronize()
    with side:
        assert y.tolist() == [9.0] * 1000  # the wrong values that record_stream prevents


@pytest.mark.needs("two devices")
def test_record_stream_of_another_device() -> None:
    there = torch.Stream("openreg:1")
    x = torch.ones(1000, device="openreg:0")
    sleep_on(there, 100)
    x.record_stream(there)
    address = x.data_ptr()
    del x
    assert torch.empty(1000, device="openreg:0").data_ptr() != address
    there.synchronize()
    assert torch.empty(1000, device="openreg:0").data_ptr() == address


def test_record_stream_ignores_memory_of_others() -> None:
    torch.empty(0, device="openreg").record_stream(torch.Stream("openreg"))
    with pytest.raises(RuntimeError, match="a stream of this backend is needed"):
        torch.ones(1, device="openreg").record_stream(torch.Stream(stream_id=0, device_index=0, device_type=1))


def test_empty_cache_waits_for_recorded_streams() -> None:
    side = torch.Stream("openreg:0")
    reserved = torch.accelerator.memory_reserved()
    x = torch.ones(3 * MIB, dtype=torch.uint8, device="openreg:0")
    sleep_on(side, 100)
    x.record_stream(side)
    del x
    torch.accelerator.empty_cache()
    assert side.query()
    assert torch.accelerator.memory_reserved() == reserved


def test_blocks_are_aligned_and_disjoint() -> None:
    tensors = [torch.full((n,), float(n), device="openreg") for n in range(1, 200)]
    assert all(t.data_ptr() % 512 == 0 for t in tensors)
    for n, tensor in enumerate(tensors, start=1):
        assert tensor.tolist() == [float(n)] * n


@pytest.mark.needs("two devices")
def test_each_device_has_its_own_memory() -> None:
    before = allocated(0), allocated(1)
    x = torch.empty(2 * MIB, dtype=torch.uint8, device="openreg:1")
    assert (allocated(0), allocated(1)) == (before[0], before[1] + 2 * MIB)
    del x


def test_memory_info() -> None:
    free, total = torch.openreg.mem_get_info(0)
    assert 0 < free <= total
    x = torch.empty(12 * MIB, dtype=torch.uint8, device="openreg")  # a segment of its own
    assert torch.accelerator.get_memory_info(0) == (free - 12 * MIB, total)
    del x


def test_out_of_memory_says_what_to_do_and_loses_nothing(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        keep = torch.full((8 << 20,), 7, dtype=torch.uint8, device="openreg")
        del_me = torch.empty(40 << 20, dtype=torch.uint8, device="openreg")
        del del_me                      # cached: 40 MiB that the next allocation may need
        torch.empty(44 << 20, dtype=torch.uint8, device="openreg")  # fits once the cache is emptied
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


def test_a_segment_too_large_for_the_device_is_no_reason_to_fail(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        a = torch.full((28 << 20,), 1, dtype=torch.uint8, device="openreg")
        b = torch.full((3 << 20,), 2, dtype=torch.uint8, device="openreg")  # 4 MiB are left, a segment has 20
        assert torch.accelerator.memory_reserved() == 31 << 20
        assert a[-3:].tolist() == [1, 1, 1] and b[:3].tolist() == [2, 2, 2]
        """,
        OPENREG_DEVICE_MEMORY="32M",
    )
    assert done.returncode == 0, done.stderr


def test_a_fraction_of_the_memory_is_the_limit(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        torch.openreg.set_per_process_memory_fraction(0.5)
        x = torch.empty(24 << 20, dtype=torch.uint8, device="openreg")
        try:
            torch.empty(12 << 20, dtype=torch.uint8, device="openreg")
        except torch.OutOfMemoryError as error:
            assert "PyTorch, of a limit of 33554432 bytes, holds 25165824 in tensors" in str(error), error
        else:
            raise AssertionError
        if torch.accelerator.device_count() > 1:
            torch.empty(12 << 20, dtype=torch.uint8, device="openreg:1")
        assert torch.openreg.get_per_process_memory_fraction() == 0.5
        torch.openreg.set_per_process_memory_fraction(1.0)
        assert torch.openreg.get_per_process_memory_fraction() == 1
        torch.empty(12 << 20, dtype=torch.uint8, device="openreg")
        for wrong in (0, -1, 1.5):
            try:
                torch.openreg.set_per_process_memory_fraction(wrong)
            except RuntimeError as error:
                assert "a fraction of memory is over 0 and up to 1" in str(error), error
            else:
                raise AssertionError
        """,
        OPENREG_DEVICE_MEMORY="64M",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("setting", "requested", "given"),
    [("", 1200, 1536), ("roundup_power2_divisions:4", 5000, 5120), ("roundup_power2_divisions:2", 9000, 12288)],
)
def test_settings_round(run_process: RunProcess, setting: str, requested: int, given: int) -> None:
    done = run_process(
        f"""
        import torch
        x = torch.empty({requested}, dtype=torch.uint8, device="openreg")
        assert torch.accelerator.memory_allocated() == {given}, torch.accelerator.memory_allocated()
        """,
        PYTORCH_ALLOC_CONF=setting,
    )
    assert done.returncode == 0, done.stderr


def test_a_large_block_is_not_split_above_the_setting(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        big = torch.empty(64 << 20, dtype=torch.uint8, device="openreg")
        address = big.data_ptr()
        del big
        def place(mib):
            return torch.empty(mib << 20, dtype=torch.uint8, device="openreg").data_ptr()
        assert place(11) != address      # not split, so kept for those who need it
        assert place(40) != address      # more than max_non_split_rounding_mb too large
        assert place(50) == address
        """,
        PYTORCH_ALLOC_CONF="max_split_size_mb:30",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("setting", ["expandable_segments:True", "garbage_collection_threshold:0.5"])
def test_settings_that_are_not_supported_are_refused(run_process: RunProcess, setting: str) -> None:
    done = run_process('import torch; torch.ones(1, device="openreg")', status=1, PYTORCH_ALLOC_CONF=setting)
    assert f"of PYTORCH_ALLOC_CONF are not supported, got {setting}: leave them out" in done.stderr


@pytest.mark.parametrize("other", [{}, {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}], ids=["alone", "with ours"])
@pytest.mark.parametrize("variable", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"])
def test_settings_for_others_do_not_make_the_device_unusable(
    run_process: RunProcess, variable: str, other: dict[str, str]
) -> None:
    code = """
        import warnings
        warnings.simplefilter("default")
        import torch
        print([torch.ones(1, device="openreg").item() for _ in range(2)])
        """
    done = run_process(code, **{variable: "expandable_segments:True"}, **other)
    assert done.stdout.strip() == "[1.0, 1.0]"
    told = f"expandable_segments and garbage_collection_threshold of {variable} have no effect on openreg"
    assert done.stderr.count(told) == 1


def test_figures_do_not_start_the_driver_but_check_the_device(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        o = torch.openreg
        pinned = o.host_memory_stats()["allocations.current"]
        print(dict(o.memory_stats()), o.memory_allocated(), o.max_memory_reserved(0), pinned)
        o.reset_peak_memory_stats(); o.reset_peak_host_memory_stats(); o.reset_accumulated_host_memory_stats()
        try:
            o.memory_allocated(-2)
        except ValueError as error:
            print(error)
        print(o.is_initialized(), len(torch.accelerator.memory_stats()))
        """
    )
    assert done.stdout.splitlines() == [
        "{} 0 0 0",
        "openreg: device index -2 was asked for, and no device has it",
        "False 0",
    ], done.stderr


def test_statistics_can_be_reset() -> None:
    x = torch.empty(1000, device="openreg")
    torch.openreg.reset_accumulated_memory_stats()
    stats = torch.openreg.memory_stats()
    assert stats["allocation.all.allocated"] == stats["num_device_alloc"] == 0
    assert stats["allocation.all.current"] >= 1
    y = torch.empty(1000, device="openreg")
    del x, y
    stats = torch.openreg.memory_stats()
    assert (stats["allocation.all.allocated"], stats["allocation.all.freed"]) == (1, 2)
    assert stats["requested_bytes.small_pool.freed"] == 8000
    assert torch.openreg.max_memory_allocated() > torch.openreg.memory_allocated()
    torch.openreg.reset_peak_memory_stats()
    assert torch.openreg.max_memory_allocated() == torch.openreg.memory_allocated()
    assert torch.openreg.max_memory_reserved() == torch.openreg.memory_reserved()


def test_summary() -> None:
    x = torch.empty(3 * MIB, dtype=torch.uint8, device=LAST_DEVICE)
    lines = torch.openreg.memory_summary(LAST_DEVICE).splitlines()
    assert lines[0].split() == ["bytes", "now", "peak", "allocated", "freed"]
    assert lines[1].split()[:2] == ["Tensors", f"{torch.openreg.memory_allocated(LAST_DEVICE):,}"]
    short = torch.openreg.memory_summary(LAST_DEVICE, abbreviated=True).splitlines()
    assert short == [lines[0], lines[1], lines[4], lines[-1]]
    del x


def test_a_summary_before_the_first_use(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        figures = [line.split()[-4:] for line in torch.openreg.memory_summary().splitlines()[1:-1]]
        assert len(figures) == 5 and all(row == ["0"] * 4 for row in figures), figures
        assert torch.openreg.memory_stats() == {} and not torch.openreg.is_initialized()
        """
    )
    assert done.returncode == 0, done.stderr


def test_the_wait_for_a_recorded_stream_frees_a_part_of_a_segment(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        def megabytes(count):
            return torch.empty(count << 20, dtype=torch.uint8, device="openreg")
        segment = megabytes(60)
        del segment
        kept, freed, side = megabytes(4), megabytes(50), torch.Stream("openreg")
        freed.record_stream(side)
        with side:
            torch.openreg._sleep(50_000_000)
        del freed
        again = megabytes(50).fill_(1)
        stats = torch.openreg.memory_stats()
        assert stats["num_ooms"] == 0, stats
        assert again.sum(dtype=torch.int64).item() == 50 << 20
        """,
        OPENREG_DEVICE_MEMORY="64M",
    )
    assert done.returncode == 0, done.stderr


def test_many_threads_get_their_own_blocks() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for size in range(1, 120):
            x = torch.full((size,), number, dtype=torch.int32, device=DEVICES[number % len(DEVICES)])
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


def test_the_profiler_leaves_the_cache_as_it_is() -> None:
    """Small freed blocks wait for requests of their size. Reading two totals at each allocation joins none of them."""
    torch.accelerator.empty_cache()
    kept = torch.empty(16, device="openreg")
    joined = torch.accelerator.memory_stats()["inactive_split.small_pool.allocated"]
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]):
        for _ in range(20):
            torch.empty(16, device="openreg")
    assert torch.accelerator.memory_stats()["inactive_split.small_pool.allocated"] - joined <= 2
    del kept


@pytest.mark.needs("kernels")
def test_a_lazy_clone_is_made_on_its_device_behind_what_writes_the_original() -> None:
    last = torch.accelerator.device_count() - 1  # not the current device, if there are two
    x, five = torch.zeros(5, device=LAST_DEVICE), torch.full((5,), 5.0, device=LAST_DEVICE)
    sleep_on(torch.openreg.default_stream(last), 100)
    x.copy_(five)
    y = torch._lazy_clone(x)
    assert not torch._C._is_cow_tensor(x)
    assert not torch._C._is_cow_tensor(y)
    assert y.data_ptr() in [block["address"] for segment in segments(last) for block in segment["blocks"]]
    y.add_(1)
    assert x.tolist() == [5.0] * 5
    assert y.tolist() == [6.0] * 5
    assert y.untyped_storage().resize_(40).nbytes() == 40
    assert y.sum().item() == 30


def test_no_warning_leaves_a_deleter_as_an_exception(tmp_path: Path) -> None:
    program, torch_folder = tmp_path / "deleters", Path(torch.__file__).parent
    libraries = [torch_folder / "lib", Path(_C.__file__).parent / "lib"]
    command = [*compiler_command(), "-std=c++20", "-isystem", str(torch_folder / "include")]
    command += [str(Path(__file__).with_name("deleters.cpp")), "-o", str(program)]
    command += [f"-{flag}{folder}" for folder in libraries for flag in ("L", "Wl,-rpath,", "Wl,-rpath-link,")]
    # The program calls no function of the backend, which registers itself when loaded: --no-as-needed keeps it.
    subprocess.run([*command, "-Wl,--no-as-needed", "-ltorch_openreg", "-ltorch_cpu", "-lc10"], check=True)
    ran = subprocess.run([program], capture_output=True, text=True, check=False, timeout=120)
    assert "no exception has left a deleter" in ran.stdout, ran.stdout + ran.stderr
    assert ran.stdout.count("warning: ") == 2


def test_a_size_that_is_negative_or_too_large_is_no_memory() -> None:
    stats = torch.openreg.memory_stats()
    for size in (-1000, -600, -MIB, -2 * MIB):
        with pytest.raises(torch.OutOfMemoryError, match="bytes are more than any device can have"):
            torch.UntypedStorage(size, device="openreg")
    after = torch.openreg.memory_stats()
    assert {name: after[name] for name in stats if "current" in name} == {
        name: stats[name] for name in stats if "current" in name
    }


@pytest.mark.needs("simulator")
def test_the_cache_is_emptied_after_a_recorded_stream_was_destroyed() -> None:
    driver = ctypes.CDLL(library()._name)
    handle = ctypes.c_void_p()
    assert driver.orStreamCreateWithPriority(ctypes.byref(handle), 0) == 0
    assert handle.value is not None
    stream = torch.openreg.get_stream_from_external(handle.value)
    x = torch.ones(4, device="openreg")
    x.record_stream(stream)
    del x
    stream.synchronize()
    assert driver.orStreamDestroy(handle) == 0
    torch.openreg.empty_cache()


@pytest.mark.needs("queue")
@pytest.mark.parametrize(
    "empty_cache", [torch.openreg.empty_cache, torch.accelerator.empty_cache], ids=["own", "of all"]
)
def test_emptying_the_cache_leaves_python_to_other_threads(empty_cache: Callable[[], None]) -> None:
    stream, done = torch.Stream("openreg"), threading.Event()
    x = torch.ones(4, device="openreg")
    x.record_stream(stream)
    with stream:
        torch.openreg._sleep(300_000_000)
    del x
    beats = []

    def beat() -> None:
        while not done.wait(0.01):
            beats.append(1)

    thread = threading.Thread(target=beat)
    thread.start()
    empty_cache()
    done.set()
    thread.join()
    assert len(beats) >= 5


@pytest.mark.needs("graphs")
def test_the_message_of_a_thread_while_another_captures(run_process: RunProcess) -> None:
    ran = run_process(
        """
        import threading, torch
        kept = torch.empty(48 << 20, dtype=torch.uint8, device="openreg")
        del kept
        def other():
            try:
                torch.empty(40 << 20, dtype=torch.uint8, device="openreg:0").resize_(60 << 20)
            except torch.OutOfMemoryError as error:
                print("kept, since a graph is captured" in str(error))
        stream, graph, x = torch.Stream("openreg"), torch.accelerator.Graph(), torch.ones(3, device="openreg")
        with stream:
            graph.capture_begin()
            y = x + 1
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            graph.capture_end()
        segments = torch.openreg.memory._snapshot()["segments"]
        print(sorted({segment["segment_pool_id"] for segment in segments}) == [(0, 0), tuple(graph.pool())])
        """,
        OPENREG_DEVICE_MEMORY="72M",
        OPENREG_DEVICE_COUNT="1",
    )
    assert ran.stdout == "True\nTrue\n", ran.stderr


@pytest.mark.needs("graphs")
def test_memory_that_the_driver_refuses_to_free_stays_in_the_cache() -> None:
    def held() -> tuple[int, int]:
        free, total = torch.accelerator.get_memory_info(0)
        return torch.accelerator.memory_reserved(0), total - free

    x = torch.empty(24 * MIB, dtype=torch.uint8, device="openreg:0")
    address, before = x.data_ptr(), held()
    del x
    # A capture that the backend does not know of: as one that another thread begins while the cache is emptied.
    stream, graph, driver = ctypes.c_void_p(new_driver_stream(0)), ctypes.c_void_p(), library()
    assert driver.orStreamBeginCapture(stream, 0) == 0  # orStreamCaptureModeGlobal
    try:
        with pytest.raises(RuntimeError, match="orFree"):
            torch.accelerator.empty_cache()
    finally:
        assert driver.orStreamEndCapture(stream, ctypes.byref(graph)) != 0  # the call has broken the capture
        driver.orGetLastError()
        assert stream.value is not None
        destroy_driver_stream(stream.value)
    assert held() == before
    assert torch.empty(24 * MIB, dtype=torch.uint8, device="openreg:0").data_ptr() == address
    torch.accelerator.empty_cache()
    assert [now - then for now, then in zip(held(), before, strict=True)] == [-24 * MIB] * 2


@pytest.mark.needs("queue")
def test_two_threads_that_lack_memory_share_what_the_cache_had(run_process: RunProcess) -> None:
    done = run_process(
        """
        import threading, time, torch
        cached = torch.empty(60 << 20, dtype=torch.uint8, device="openreg:0")
        del cached
        kept = []

        def allocate():
            with torch.Stream("openreg:0"):
                kept.append(torch.empty(24 << 20, dtype=torch.uint8, device="openreg:0"))

        with torch.Stream("openreg:0"):
            torch.openreg._sleep(500_000_000)  # the driver waits for it before it frees
        threads = [threading.Thread(target=allocate) for _ in range(2)]
        for thread in threads:
            thread.start()
            time.sleep(0.1)  # the second comes while the first releases
        for thread in threads:
            thread.join()
        print(len(kept), torch.accelerator.memory_stats(0)["num_ooms"])
        """,
        OPENREG_DEVICE_MEMORY="64M",
    )
    assert done.stdout == "2 0\n", done.stderr
