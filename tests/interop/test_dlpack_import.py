"""DLPack imports: memory of other producers, their deleters, and what is refused."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.dlpack import to_dlpack

from tests.conftest import RunProcess
from tests.interop.capsules import Producer
from tests.offers import LAST_DEVICE

INDEX = torch.device(LAST_DEVICE).index


@pytest.mark.parametrize("versioned", [True, False])
def test_another_producers_memory_is_shared_and_released_once(versioned: bool) -> None:
    memory = torch.arange(6.0, device=LAST_DEVICE)
    producer = Producer(memory.data_ptr(), (2, 2), (3, 1), device=INDEX, offset=4, versioned=versioned)
    x = torch.from_dlpack(producer)
    y = x[1]
    assert (x.tolist(), str(x.device)) == ([[1, 2], [4, 5]], LAST_DEVICE)
    x.add_(10)
    assert memory.tolist() == [0, 11, 12, 3, 14, 15]
    del x
    assert producer.deleted_by == []
    del y
    assert producer.deleted_by == [threading.get_ident()]


def test_the_deleter_runs_where_the_last_tensor_dies() -> None:
    memory = torch.ones(2, device=LAST_DEVICE)
    producer = Producer(memory.data_ptr(), (2,), device=INDEX)
    tensors = [torch.from_dlpack(producer)]
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    ident = thread.ident
    thread.join()
    assert producer.deleted_by == [ident]


def _from_capsule(producer: Producer) -> torch.Tensor:
    return torch.from_dlpack(producer.capsule())


def _as_array(producer: Producer) -> torch.Tensor:
    return torch.asarray(producer.capsule())


WAYS = pytest.mark.parametrize("take", [torch.from_dlpack, _from_capsule, _as_array])


@pytest.mark.needs("queue", "kernels")
@WAYS
def test_the_deleter_waits_for_queued_readers(take: Callable[[Producer], torch.Tensor]) -> None:
    memory = torch.ones(2, device=LAST_DEVICE)
    producer = Producer(memory.data_ptr(), (2,), device=INDEX)
    with torch.Stream(LAST_DEVICE) as stream:
        producer.watched = stream
        x = take(producer)
        torch.openreg._sleep(100_000_000)
        y = x + 1
        assert not stream.query()
        del x
    assert producer.busy_at_delete == [False]
    assert y.tolist() == [2, 2]


FAILING_READER = f"""
import ctypes
import torch
from tests.interop.capsules import Producer
memory = torch.ones(2, device="{LAST_DEVICE}")
producer = Producer(memory.data_ptr(), (2,), device={INDEX})
x = torch.from_dlpack(producer)
assert ctypes.CDLL("libopenreg.so").orInjectFault(1, {INDEX}, 1) == 0
x.abs()
del x
print(len(producer.deleted_by))
"""


@pytest.mark.needs("faults", "host kernels")
def test_the_deleter_of_a_failed_device_warns_and_releases(run_process: RunProcess) -> None:
    ran = run_process(FAILING_READER)
    assert (ran.returncode, ran.stdout) == (0, "1\n"), ran.stderr
    assert f"orStreamSynchronize: kernel 'abs' failed on {LAST_DEVICE}" in ran.stderr


def test_another_producer_gets_the_current_stream() -> None:
    memory = torch.ones(2, device=LAST_DEVICE)
    producer = Producer(memory.data_ptr(), (2,), device=INDEX)
    with torch.Stream(LAST_DEVICE) as stream:
        torch.from_dlpack(producer)
    torch.from_dlpack(producer)
    default = torch.openreg.default_stream(LAST_DEVICE)
    assert producer.streams == [stream.native_handle, default.native_handle]
    assert len(producer.deleted_by) == 2


@WAYS
def test_memory_that_is_not_the_devices_is_refused(take: Callable[[Producer], torch.Tensor]) -> None:
    host = (ctypes.c_float * 2)(1, 2)
    memory = torch.ones(2, device=LAST_DEVICE)

    def refused(address: int, shape: tuple[int, ...], message: str, **options: Any) -> None:
        producer = Producer(address, shape, **options)
        with pytest.raises((BufferError, RuntimeError), match=message):
            take(producer)
        assert producer.deleted_by == []  # the capsule still owns the tensor

    refused(
        ctypes.addressof(host), (2,), r"openreg: a DLPack capsule for openreg:0 points to 0x\w+, which is no memory"
    )
    refused(0, (2,), "which is no memory of a device")
    refused(memory.data_ptr(), (10_000_000,), r"names bytes \d+ to \d+ of an allocation of \d+ bytes", device=INDEX)
    refused(memory.data_ptr(), (2,), r"openreg:99 points|99 was asked for", device=99)


@pytest.mark.needs("two devices")
def test_memory_of_another_device_is_refused() -> None:
    memory = torch.ones(2, device="openreg:1")
    with pytest.raises(BufferError, match="a DLPack capsule for openreg:0 points to memory of openreg:1"):
        torch.from_dlpack(Producer(memory.data_ptr(), (2,), device=0))


def test_a_capsule_is_consumed_once() -> None:
    capsule = to_dlpack(torch.ones(2, device=LAST_DEVICE))
    assert torch.from_dlpack(capsule).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="from_dlpack received an invalid capsule"):
        torch.from_dlpack(capsule)


def test_a_capsule_of_a_later_major_version_is_refused_unread() -> None:
    producer = Producer(0, (2,), device=INDEX)
    producer.managed.major = 2
    producer.managed.tensor.shape = ctypes.cast(8, ctypes.POINTER(ctypes.c_int64))  # who reads it ends the process
    with pytest.raises(RuntimeError, match="unsupported DLPack capsule major version: 2"):
        torch.from_dlpack(producer.capsule())


def test_as_array_does_what_it_did() -> None:
    memory = torch.arange(3.0, device=LAST_DEVICE)
    x = torch.asarray(to_dlpack(memory))
    assert (x.data_ptr(), x.tolist()) == (memory.data_ptr(), [0, 1, 2])
    assert torch.asarray(to_dlpack(memory), dtype=torch.float64, device="cpu").dtype == torch.float64
    assert torch.asarray(to_dlpack(torch.ones(2))).tolist() == [1, 1]
    assert torch.asarray(obj=[1, 2]).tolist() == [1, 2]
    assert torch.asarray(memory) is memory
    with torch.device(LAST_DEVICE):
        assert str(torch.asarray([1.0]).device) == LAST_DEVICE


def test_a_mode_sees_the_function_that_programs_have() -> None:
    class Doubles(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            options = {"dtype": torch.float64} if function in (torch.asarray, torch.zeros) else {}
            return function(*args, **(kwargs or {}) | options)

    class Own(torch.Tensor):
        pass

    with Doubles():
        assert torch.asarray([1.0]).dtype == torch.zeros(1).dtype == torch.float64
    with torch.device("openreg"):
        assert torch.asarray([1.0]).device.type == "openreg"
    own = torch.ones(2).as_subclass(Own)
    assert type(torch.asarray(own)) is Own
    assert torch.asarray([1, 2], device="openreg").tolist() == [1, 2]
