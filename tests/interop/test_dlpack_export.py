"""DLPack exports: values, copies, streams, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.dlpack import DLDeviceType

from tests.interop.capsules import Producer
from tests.offers import DEVICES, LAST_DEVICE
from torch_openreg import _dlpack

INDEX = torch.device(LAST_DEVICE).index
DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.uint64,
    torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64,
    torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]  # fmt: skip


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("device", DEVICES)
def test_a_tensor_names_its_device(device: str) -> None:
    x = torch.ones(2, device=device)
    assert x.__dlpack_device__() == (DLDeviceType.kDLExtDev, torch.device(device).index)


def test_other_devices_keep_their_names() -> None:
    assert torch.ones(2).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)
    with pytest.raises(ValueError, match="Unknown device type meta for Dlpack"):
        torch.ones(2, device="meta").__dlpack_device__()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_every_dtype_keeps_its_bytes(dtype: torch.dtype, max_version: tuple[int, int] | None) -> None:
    host = torch.arange(1, 1 + 6 * dtype.itemsize, dtype=torch.uint8)
    host = (host % 2 if dtype == torch.bool else host).view(dtype)
    x = host.to(LAST_DEVICE)
    y = torch.from_dlpack(x.__dlpack__(max_version=max_version))
    assert (y.dtype, y.device, y.data_ptr()) == (dtype, x.device, x.data_ptr())
    assert _bytes(y) == _bytes(host)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x, lambda x: x.t(), lambda x: x[::2, 1:], lambda x: x[1, 2], lambda x: x[:0], lambda x: x[:, :0],
        lambda x: x.expand(3, 4, 6), lambda x: x[None].movedim(0, 2), lambda x: x[2:],
    ],
)  # fmt: skip
def test_views_share_their_memory(view: Any) -> None:
    host = torch.arange(24.0).view(4, 6)
    x = view(host.clone().to(LAST_DEVICE))
    y = torch.from_dlpack(x)
    assert y.shape == x.shape
    assert y.data_ptr() == x.data_ptr()
    assert torch.equal(y.cpu(), view(host))
    if x.numel() > 0 and x.dim() == 2:
        y.add_(1)
        assert torch.equal(x.cpu(), view(host + 1))


def test_numpy_and_the_cpu_get_copies() -> None:
    x = torch.arange(6.0, device=LAST_DEVICE).view(2, 3).t()
    array = np.from_dlpack(x, device="cpu")
    assert array.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert torch.from_dlpack(x, device="cpu").tolist() == array.tolist()
    assert torch.from_dlpack(x.__dlpack__(dl_device=(DLDeviceType.kDLCPU, 0))).device.type == "cpu"
    # The second since NumPy 2.5.
    with pytest.raises((RuntimeError, BufferError), match=r"^Unsupported device in DLTensor\.$"):
        np.from_dlpack(x)
    with pytest.raises(ValueError, match=rf"cannot move \(i.e. copy=False\) tensor from {LAST_DEVICE} to cpu"):
        x.__dlpack__(dl_device=(DLDeviceType.kDLCPU, 0), copy=False)


def test_numpy_arrays_come_to_the_device_as_copies() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    x = torch.from_dlpack(array, device=LAST_DEVICE)
    assert (x.device, x.tolist()) == (torch.device(LAST_DEVICE), array.tolist())
    assert torch.from_dlpack(array).device.type == "cpu"


def test_pinned_memory_is_exported_without_a_copy() -> None:
    pinned = torch.ones(3).pin_memory()
    array = np.from_dlpack(pinned)
    array[1] = 5
    assert pinned.tolist() == [1, 5, 1]
    assert torch.from_dlpack(pinned).data_ptr() == pinned.data_ptr()


def test_a_copy_is_new_memory() -> None:
    x = torch.ones(3, device=LAST_DEVICE)
    for y in (
        torch.from_dlpack(x, copy=True),
        torch.from_dlpack(x.__dlpack__(copy=True, stream=None)),
        torch.from_dlpack(x.__dlpack__(copy=True)),
    ):
        y.add_(1)
        assert (x.tolist(), y.tolist()) == ([1, 1, 1], [2, 2, 2])
    assert torch.from_dlpack(x, copy=False).data_ptr() == x.data_ptr()


@pytest.mark.needs("two devices")
def test_another_device_gets_a_copy() -> None:
    x = torch.ones(3, device="openreg:0")
    y = torch.from_dlpack(x, device="openreg:1")
    z = torch.from_dlpack(x.__dlpack__(dl_device=(DLDeviceType.kDLExtDev, 1)))
    assert (str(y.device), y.tolist(), str(z.device), z.tolist()) == ("openreg:1", [1.0] * 3, "openreg:1", [1.0] * 3)
    with pytest.raises(ValueError, match=r"cannot move DLPack tensor from device \(12, 0\) to \(12, 1\)"):
        torch.from_dlpack(Producer(x.data_ptr(), (3,)), device="openreg:1", copy=False)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: x.requires_grad_(), "Can't export tensors that require gradient, use tensor.detach()"),
        (lambda x: x.to(torch.complex64).conj(), "Can't export tensors with the conjugate bit set"),
        (lambda x: x.to(torch.complex64).conj().imag, "Can't export tensors with the negative bit set"),
        (lambda x: torch._neg_view(x), "Can't export tensors with the negative bit set"),
    ],
)
def test_what_a_capsule_cannot_express_is_refused(make: Any, message: str) -> None:
    x = make(torch.ones(2, device=LAST_DEVICE))
    for call in (x.__dlpack__, lambda: x.__dlpack__(stream=None), lambda: torch.from_dlpack(x)):
        with pytest.raises(BufferError, match=f"^{re.escape(message)}$"):
            call()


def test_a_stream_is_a_handle() -> None:
    x = torch.ones(2, device=LAST_DEVICE)
    with pytest.raises(TypeError, match="stream must be ``int`` or ``none``"):
        x.__dlpack__(stream="0")
    with pytest.raises(RuntimeError, match="orErrorInvalidHandle"):
        x.__dlpack__(stream=12345)


@pytest.mark.needs("two devices")
def test_a_stream_of_another_device_is_refused() -> None:
    stream = torch.Stream("openreg:0")
    x = torch.ones(2, device="openreg:1")
    expected = "^Can't export a tensor on openreg:1 to a stream of openreg:0: pass a stream of the tensor's device$"
    with pytest.raises(BufferError, match=expected):
        x.__dlpack__(stream=stream.native_handle)


@pytest.mark.needs("queue", "kernels")
@pytest.mark.parametrize("copy", [None, True])
def test_the_consumers_stream_waits_for_the_producer(copy: bool | None) -> None:
    x = torch.zeros(1000, device=LAST_DEVICE)
    consumer = torch.Stream(LAST_DEVICE)
    torch.accelerator.synchronize(INDEX)
    with torch.Stream(LAST_DEVICE) as producer:
        torch.openreg._sleep(100_000_000)
        x.add_(1)
        capsule = x.__dlpack__(stream=consumer.native_handle, max_version=(1, 0), copy=copy)
        assert not producer.query()
    with consumer:
        assert torch.equal((torch.from_dlpack(capsule) * 2).cpu(), torch.full((1000,), 2.0))


@pytest.mark.needs("queue", "kernels")
def test_memory_is_not_reused_before_the_consumers_stream_has_read_it() -> None:
    x = torch.full((1000,), 7.0, device=LAST_DEVICE)
    address, consumer = x.data_ptr(), torch.Stream(LAST_DEVICE)
    capsule = x.__dlpack__(stream=consumer.native_handle)
    with consumer:
        torch.openreg._sleep(200_000_000)
        read = torch.from_dlpack(x) * 1
    del x, capsule
    other = torch.empty(1000, device=LAST_DEVICE)
    assert other.data_ptr() != address
    other.fill_(0)
    consumer.synchronize()
    assert torch.equal(read.cpu(), torch.full((1000,), 7.0))


def test_subclasses_are_exported() -> None:
    class Sub(torch.Tensor):
        pass

    x = torch.ones(2, device=LAST_DEVICE).as_subclass(Sub)
    assert x.__dlpack_device__() == (12, INDEX)
    assert torch.from_dlpack(x).tolist() == [1, 1]
    assert torch.from_dlpack(x.__dlpack__(stream=None)).tolist() == [1, 1]


def test_a_release_that_moves_a_function_is_an_error() -> None:
    expected = (
        r"^openreg: Tensor\.__dlpack__ of torch .* is torch\._tensor\.__dlpack__\(self stream .*\), and the backend "
        r"replaces torch\._tensor\.__dlpack__\(self copy \.\.\.\); see torch_openreg/_dlpack\.py$"
    )
    with pytest.raises(RuntimeError, match=expected):
        _dlpack._original(torch.Tensor, "__dlpack__", "torch._tensor", "self copy")
    with pytest.raises(RuntimeError, match=r"Tensor\.__dlpack_c__ of torch .* is missing, and the backend replaces"):
        _dlpack._original(torch.Tensor, "__dlpack_c__", "torch._tensor", "self")


def test_memory_is_flat_after_many_exchanges() -> None:
    x = torch.ones(1000, device=LAST_DEVICE)

    def exchange() -> None:
        torch.from_dlpack(x.__dlpack__(stream=None))
        torch.from_dlpack(x, copy=True)
        x.__dlpack__(max_version=(1, 0))  # dropped

    exchange()
    torch.accelerator.synchronize(INDEX)
    before = torch.accelerator.memory_allocated(INDEX)
    for _ in range(1000):
        exchange()
    torch.accelerator.synchronize(INDEX)
    assert torch.accelerator.memory_allocated(INDEX) == before
