"""Storages: the methods that copy, resizing, set_, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.storage import _StorageBase

from tests.conftest import RunProcess
from tests.layouts import DTYPES, STORED_DTYPES
from tests.offers import DEVICES, LAST_DEVICE

COUNT = torch.accelerator.device_count()
VALID_INDICES = f"valid indices are 0 to {COUNT - 1}"


def both(values: list[float], dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    host = torch.tensor(values).to(dtype)
    return host, host.to(LAST_DEVICE)


# Methods that copy.


@pytest.mark.parametrize("dtype", [*DTYPES, *STORED_DTYPES], ids=str)
def test_the_bytes_of_a_storage_are_those_of_the_cpu(dtype: torch.dtype) -> None:
    host, x = both([0.0, 1.0, 2.0, 1.0], dtype)
    expected, storage = host.untyped_storage(), x.untyped_storage()
    assert (storage.nbytes(), storage.size(), len(storage)) == (expected.nbytes(),) * 3
    assert storage.tolist() == expected.tolist()
    assert storage.cpu().tolist() == storage.clone().tolist() == expected.tolist()
    assert [storage[i] for i in (0, -1)] == [expected[i] for i in (0, -1)]
    assert x._typed_storage().dtype == dtype
    assert torch.empty(0, dtype=dtype, device=LAST_DEVICE).set_(storage.clone()).tolist() == host.tolist()


def test_attributes() -> None:
    storage = torch.ones(2, device=LAST_DEVICE).untyped_storage()
    assert (storage.device, storage.get_device(), storage.is_openreg) == (torch.device(LAST_DEVICE), COUNT - 1, True)
    assert storage.resizable()
    assert not storage.is_pinned()
    assert torch.ones(2, device=LAST_DEVICE)[1:].untyped_storage().nbytes() == 8
    assert torch.empty(0, 3, device="openreg").untyped_storage().tolist() == []


def test_a_part_of_a_storage_shares_its_memory_and_outlives_it() -> None:
    x = torch.arange(4, dtype=torch.uint8, device=LAST_DEVICE)
    part = x.untyped_storage()[1:3]
    part.fill_(9)
    assert x.tolist() == [0, 9, 9, 3]
    assert not part.resizable()
    del x
    assert part.tolist() == [9, 9]


def test_writing_bytes() -> None:
    storage = torch.zeros(4, dtype=torch.uint8, device=LAST_DEVICE).untyped_storage()
    storage[0] = 1
    storage[2:4] = 7
    assert storage.tolist() == [1, 0, 7, 7]
    assert storage.fill_(255).tolist() == [255] * 4
    assert storage.copy_(torch.arange(4, dtype=torch.uint8).untyped_storage()).tolist() == [0, 1, 2, 3]


def test_copies_between_host_and_devices() -> None:
    host = torch.arange(3, dtype=torch.uint8).untyped_storage()
    first = host.openreg(0)
    second = first.to(device=LAST_DEVICE)
    assert (first.device.index, second.device.index) == (0, COUNT - 1)
    assert second.cpu().tolist() == second.tolist() == [0, 1, 2]
    assert second.openreg(COUNT - 1) is second
    assert host.copy_(second.fill_(4)).tolist() == [4, 4, 4]


def test_a_file_and_a_storage(tmp_path: Path) -> None:
    storage = torch.arange(3, dtype=torch.uint8, device=LAST_DEVICE).untyped_storage()
    with (tmp_path / "bytes").open("wb") as file:
        storage._write_file(file, True, True, 1)
    with (tmp_path / "bytes").open("rb") as file:
        read = torch.UntypedStorage(3, device=LAST_DEVICE)._set_from_file(file, 0, True, 1)
    assert (read.tolist(), read.device) == ([0, 1, 2], storage.device)


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda s: s[8], IndexError, "index 8 out of range for storage of size 8"),
        (lambda s: s[::2], RuntimeError, "only a step of 1 is supported"),
        (lambda s: s.copy_(torch.ones(1).untyped_storage()), RuntimeError, "self was 8 bytes but src was 4 bytes"),
        (lambda s: s.pin_memory(), TypeError, "only CPU memory can be pinned"),
        (lambda s: torch.UntypedStorage(8, device=f"openreg:{COUNT}"), RuntimeError, VALID_INDICES),
        (lambda s: s.byteswap(torch.int16), RuntimeError, "byteswap works on host memory, and this storage is on"),
    ],
)
def test_what_is_refused(use: Callable[[torch.UntypedStorage], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        use(torch.ones(2, device=LAST_DEVICE).untyped_storage())


# Resizing.


@pytest.mark.parametrize("dtype", [*DTYPES, *STORED_DTYPES], ids=str)
def test_resizing_keeps_what_fits(dtype: torch.dtype) -> None:
    host, x = both([1.0, 0.0, 2.0, 1.0], dtype)
    expected, storage = host.untyped_storage().tolist(), x.untyped_storage()
    storage.resize_(len(expected) + 8)
    assert storage.tolist()[: len(expected)] == expected
    storage.resize_(3)
    assert (storage.tolist(), storage.device) == (expected[:3], torch.device(LAST_DEVICE))


@pytest.mark.parametrize(
    ("bytes_", "error", "message"),
    [
        (-1, RuntimeError, r"^openreg: a storage cannot have -1 bytes$"),
        (-(2**63), RuntimeError, r"^openreg: a storage cannot have -9223372036854775808 bytes$"),
        (2**63 - 1, torch.OutOfMemoryError, "^openreg"),
    ],
)
def test_a_size_that_is_none(bytes_: int, error: type[Exception], message: str) -> None:
    storage = torch.ones(2, device=LAST_DEVICE).untyped_storage()
    with pytest.raises(error, match=message):
        storage.resize_(bytes_)
    assert storage.cpu().tolist() == torch.ones(2).untyped_storage().tolist()


def test_a_part_of_a_storage_cannot_be_resized() -> None:
    part = torch.ones(2, device=LAST_DEVICE).untyped_storage()[:4]
    message = rf"^openreg: a storage of 4 bytes on {LAST_DEVICE} is not resizable, and cannot become 8 bytes$"
    with pytest.raises(RuntimeError, match=message):
        part.resize_(8)


def test_a_tensor_whose_storage_was_freed_and_restored() -> None:
    x = torch.ones(3, device="openreg")
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="a tensor of 12 bytes has no memory: its storage was resized to 0"):
        x.tolist()
    x.untyped_storage().resize_(12)
    assert x.fill_(2).tolist() == [2.0] * 3


@pytest.mark.parametrize("size", [(4,), (2, 3), (0, 2), ()])
@pytest.mark.parametrize("offset", [0, 2])
def test_resizing_a_tensor_as_on_the_cpu(size: tuple[int, ...], offset: int) -> None:
    host, x = both([1.0, 2.0, 3.0])
    resized = [tensor[offset:].resize_(size) for tensor in (host, x)]
    assert resized[0].stride() == resized[1].stride()
    assert host.untyped_storage().nbytes() == x.untyped_storage().nbytes()
    assert x.tolist() == [1.0, 2.0, 3.0]


# set_


def test_set_to_storages_as_on_the_cpu() -> None:
    def results(device: str) -> list[object]:
        x = torch.arange(6.0, device=device)
        y, storage = torch.empty(0, device=device), x[3:].untyped_storage()
        steps: list[object] = []
        for arguments in ((storage,), (storage, 1, (2, 2), (1, 2)), (storage, 2, (3,)), (storage, 5, ()), (x[4:],)):
            y.set_(*arguments)
            steps.append((y.tolist(), y.stride(), y.storage_offset(), y.data_ptr() - x.data_ptr()))
        y.set_(storage, 4, (0,), (1,))
        y.set_()
        return [*steps, y.shape, y.stride(), y.untyped_storage().nbytes(), storage.nbytes()]

    assert results(LAST_DEVICE) == results("cpu")


def test_set_grows_the_storage_for_all_its_tensors() -> None:
    x = torch.arange(3.0, device=LAST_DEVICE)
    y = torch.empty(0, device=LAST_DEVICE).set_(x.untyped_storage(), 1, (4,), (1,))
    y[2:] = 7
    assert (y.tolist(), x.tolist(), x.untyped_storage().nbytes()) == ([1.0, 2.0, 7.0, 7.0], [0.0, 1.0, 2.0], 20)


def test_set_refuses_another_device_and_another_dtype() -> None:
    storage = torch.ones(2, device=LAST_DEVICE).untyped_storage()
    for device in ("cpu", *DEVICES[:-1]):
        with pytest.raises(RuntimeError, match="the devices must match"):
            torch.empty(0, device=device).set_(storage)
    with pytest.raises(RuntimeError, match="invalid storage offset -1"):
        torch.empty(0, device=LAST_DEVICE).set_(storage, -1, (1,))
    with pytest.raises(RuntimeError, match="Could not set tensor of type float to a tensor of type signed char"):
        torch.empty(0, dtype=torch.int8, device=LAST_DEVICE).set_(torch.ones(2, device=LAST_DEVICE))


# Sharing with other processes.


def test_the_memory_of_the_host_is_shared_as_before() -> None:
    x = torch.ones(2)
    assert not x.is_shared()
    assert x.share_memory_().is_shared()
    assert torch.UntypedStorage._new_shared(8).is_shared()
    assert torch.UntypedStorage._new_shared(8, device="meta").device.type == "meta"
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    queue.put(x)
    received = queue.get()
    received.fill_(5)
    assert x.tolist() == [5.0, 5.0]


def test_what_pytorch_does_by_itself() -> None:
    storage = torch.ones(2, device="openreg").untyped_storage()
    assert _StorageBase.share_memory_(storage) is storage
    assert torch._C.StorageBase.is_shared(storage)
    with pytest.raises(RuntimeError, match="_share_fd_: only available on CPU"):
        torch.multiprocessing.reductions.reduce_storage(storage)


def test_a_storage_in_a_forked_child_is_dropped_in_silence(run_process: RunProcess) -> None:
    done = run_process(
        """
        import os, torch
        storage = torch.ones(2, device="openreg").untyped_storage()
        child = os.fork()
        if child == 0:
            del storage
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
