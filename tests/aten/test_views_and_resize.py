from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.offers import LAST_DEVICE


def test_views_share_memory() -> None:
    x = torch.arange(24.0).to("openreg")
    for view in (
        x.view(4, 6),
        x.reshape(2, 12),
        x.as_strided((3, 2), (5, 7), 1),
        x[3:9],
        x.unfold(0, 4, 2),
        x.view(4, 6).t(),
        x.view(torch.int32),
    ):
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    x.unfold(0, 4, 4)[0].fill_(-1)
    assert x[:5].tolist() == [-1.0, -1.0, -1.0, -1.0, 4.0]


def test_complex_views_write_through() -> None:
    x = torch.zeros(3, dtype=torch.complex64, device="openreg")
    torch.view_as_real(x)[:, 1] = 2.0
    assert x.tolist() == [2j, 2j, 2j]
    pairs = torch.arange(6.0, device="cpu").view(3, 2).to("openreg")
    torch.view_as_complex(pairs).mul_(1j)
    assert pairs.tolist() == [[-1.0, 0.0], [-3.0, 2.0], [-5.0, 4.0]]


def test_view_that_does_not_fit() -> None:
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch.zeros(4, 6, device="openreg").t().view(24)


@pytest.mark.parametrize("size", [(2,), (6,), (1000, 300), (0,), ()])
def test_resize_keeps_the_elements(size: tuple[int, ...]) -> None:
    x = torch.arange(6.0).to("openreg")
    x.resize_(size)
    assert x.shape == torch.Size(size)
    kept = min(6, x.numel())
    assert x.reshape(-1)[:kept].tolist() == list(map(float, range(kept)))


def test_resize_after_an_offset() -> None:
    base = torch.arange(10.0).to("openreg")
    tail = base[6:]
    tail.resize_(8)
    assert tail[:4].tolist() == [6.0, 7.0, 8.0, 9.0]
    assert base[:6].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_resize_with_memory_format() -> None:
    x = torch.empty(0, device="openreg").resize_(2, 3, 4, 5, memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="preserve"):
        x.resize_(2, 3, 4, 5, memory_format=torch.preserve_format)
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        x.resize_(-1)


def test_storage_resize_keeps_the_bytes() -> None:
    x = torch.arange(4, dtype=torch.uint8).to("openreg")
    x.untyped_storage().resize_(8)
    assert x.untyped_storage().nbytes() == 8
    assert x.tolist() == [0, 1, 2, 3]
    x.untyped_storage().resize_(2)
    assert x.untyped_storage().nbytes() == 2
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0


@pytest.mark.parametrize(
    "use", [lambda x: x + 1, lambda x: x.sum(), lambda x: x.sort()[0], lambda x: x.fill_(1), lambda x: x.dot(x)]
)
def test_a_tensor_without_memory_is_refused(use: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.arange(6.0, device="openreg")
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="a tensor of 24 bytes has no memory: its storage was resized to 0"):
        use(x).cpu()
    assert (x[:0] + 1).numel() == 0
    x.untyped_storage().resize_(24)
    assert x.fill_(2).tolist() == [2.0] * 6


def test_set_in_all_forms() -> None:
    source = torch.arange(12.0).to("openreg")
    x = torch.empty(0, device="openreg").set_(source)
    assert x.data_ptr() == source.data_ptr()
    assert x.shape == (12,)
    x = torch.empty(0, device="openreg").set_(source.untyped_storage(), 2, (2, 3), (4, 1))
    assert x.tolist() == [[2.0, 3.0, 4.0], [6.0, 7.0, 8.0]]
    x = torch.empty(0, device="openreg").set_(source.untyped_storage(), 3, (4,))
    assert x.tolist() == [3.0, 4.0, 5.0, 6.0]
    x = torch.empty(0, device="openreg").set_(source.untyped_storage())
    assert x.shape == (12,)
    assert x.set_().numel() == 0


def test_set_without_strides_keeps_those_of_a_tensor_that_has_the_sizes() -> None:
    for device in ("cpu", "openreg"):
        x = torch.arange(12.0).to(device).view(3, 4).t()
        storage = x.untyped_storage()
        assert x.set_(storage, 0, (4, 3)).stride() == (1, 4)
        assert x.set_(storage, 0, (3, 4)).stride() == (4, 1)


def test_set_grows_the_storage_like_the_cpu() -> None:
    results = []
    for device in ("cpu", "openreg"):
        x = torch.arange(4.0).to(device)
        x.set_(x.untyped_storage(), 0, (3, 3))
        results.append((x.shape, x.flatten()[:4].tolist(), x.untyped_storage().nbytes()))
    assert results[0] == results[1]


@pytest.mark.needs("two devices")
def test_set_across_devices_is_refused() -> None:
    with pytest.raises(RuntimeError, match="devices must match"):
        torch.empty(0, device="openreg:0").set_(torch.ones(2, device="openreg:1").untyped_storage())


def test_memory_of_somebody_else_is_not_resized() -> None:
    borrowed = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2, device="openreg")))
    with pytest.raises(RuntimeError, match="a storage of 8 bytes on openreg:0 is not resizable"):
        borrowed.resize_(100)
    assert borrowed.untyped_storage().nbytes() == 8


def test_out_grows_its_result() -> None:
    out = torch.empty(0, device="openreg")
    torch.abs(torch.tensor([-1.0, 2.0], device="openreg"), out=out)
    assert out.tolist() == [1.0, 2.0]
    out = torch.empty(0, device="openreg")
    torch.sub(torch.tensor([[5.0, 3.0]], device="openreg"), 1, out=out)
    assert out.tolist() == [[4.0, 2.0]]


def test_factories() -> None:
    assert torch.empty_strided((2, 3), (1, 2), device="openreg").stride() == (1, 2)
    assert torch.empty(2, 3, 4, 5, device="openreg", memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
    assert torch.zeros((), device="openreg").item() == 0
    assert torch.arange(5, device="openreg").tolist() == [0, 1, 2, 3, 4]
    assert torch.eye(2, device="openreg").tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert torch.full((2,), 3, device=LAST_DEVICE).device == torch.device(LAST_DEVICE)
    with pytest.raises(NotImplementedError, match=r"aten::empty\.memory_format is not supported for sparse compressed"):
        torch.empty(2, 2, device="openreg", layout=torch.sparse_csr)
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device="openreg")


def test_no_copy_reaches_memory_that_is_gone() -> None:
    gone = torch.ones(4, device="openreg")
    gone.untyped_storage().resize_(0)
    for source in (torch.ones(4), torch.ones(4, device="openreg"), torch.ones(4, device=LAST_DEVICE)):
        with pytest.raises(RuntimeError, match="a tensor of 16 bytes has no memory: its storage was resized to 0"):
            gone.copy_(source)


@pytest.mark.parametrize("size", [(0, 4, 2**61), (8, 8, 2**29, 2**29)])
def test_strides_that_overflow_are_refused(size: tuple[int, ...]) -> None:
    x = torch.ones(2, device="openreg")
    with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
        x.resize_(size)
    assert x.tolist() == [1.0, 1.0]
    assert x.resize_(2, 0, 3).stride() == torch.empty(0).resize_(2, 0, 3).stride()
