from __future__ import annotations

import re
import threading

import pytest
import torch

from tests.layouts import DTYPES, LAYOUTS, to_device, values
from tests.offers import DEVICES, LAST_DEVICE


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.cpu(), expected.cpu(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_and_back(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](dtype)
    y = x.to("openreg")
    assert y.device == torch.device("openreg:0")
    assert y.dtype == dtype
    same(y, x)
    assert y.stride() == x.clone().stride()


@pytest.mark.parametrize("target", LAYOUTS)
@pytest.mark.parametrize("source", LAYOUTS)
def test_copy_between_layouts_within_a_device(source: str, target: str) -> None:
    src, dst = LAYOUTS[source](torch.float32), LAYOUTS[target](torch.float32).clone(memory_format=torch.preserve_format)
    if src.shape != dst.shape and src.numel() != 1:
        src = values(tuple(dst.shape), torch.float32)  # The layouts differ in shape; one element broadcasts.
    device_dst = to_device(dst)
    device_dst.copy_(to_device(src))
    same(device_dst, dst.copy_(src))


@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("target", [torch.bool, torch.int32, torch.float16, torch.float64, torch.complex64], ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_dtype_conversion(source: torch.dtype, target: torch.dtype) -> None:
    x = values((4, 6), source)
    expected = x.to(target)
    same(x.to("openreg").to(target), expected)
    same(x.to("openreg", target), expected)
    same(x.to("openreg").to("cpu", target), expected)
    same(torch.empty(6, 4, dtype=target, device="openreg").t().copy_(x), expected)


@pytest.mark.parametrize("src_device", ["cpu", *DEVICES])
@pytest.mark.parametrize("dst_device", ["cpu", *DEVICES])
@pytest.mark.parametrize("strided", [False, True])
def test_every_pair_of_devices(src_device: str, dst_device: str, strided: bool) -> None:
    src, dst = values((6, 8), torch.float32), torch.zeros(8, 6).t()
    src_on, dst_on = src.to(src_device), dst.to(dst_device)
    if strided:
        src, dst, src_on, dst_on = src[::2, 1::3], dst[::2, 1::3], src_on[::2, 1::3], dst_on[::2, 1::3]
    dst_on.copy_(src_on)
    same(dst_on, dst.copy_(src))


@pytest.mark.needs("two devices")
def test_copies_between_devices_keep_the_order_of_work() -> None:
    x = torch.zeros(1 << 18, device="openreg:0")
    for n in range(20):
        x.fill_(n)
        y = x.to("openreg:1", non_blocking=True)
        x.fill_(-1)
        assert y.sum().item() == n * (1 << 18)


def test_a_gap_keeps_its_bytes() -> None:
    x = torch.arange(20.0).to("openreg")
    x[::2] = torch.zeros(10)
    assert x.tolist() == [0.0 if n % 2 == 0 else float(n) for n in range(20)]


def test_broadcast_copy() -> None:
    x = torch.zeros(3, 4, device="openreg")
    x.copy_(torch.arange(4.0))
    same(x, torch.arange(4.0).expand(3, 4))
    x.copy_(torch.tensor(7.0, device="openreg"))
    assert x.tolist() == [[7.0] * 4] * 3


@pytest.mark.parametrize("device", DEVICES)
def test_a_copy_of_the_same_elements_is_none(device: str) -> None:
    x = torch.arange(8.0, device=device).view(4, 2)
    for target, source in ((x, x), (x, x.view(4, 2)), (x[1:3], x[1:3]), (x.t(), x.t()), (x[1:], x[1:].detach())):
        assert target.copy_(source) is target
    same(x, torch.arange(8.0).view(4, 2))
    x.t().copy_(x.t().neg())  # other values, of other memory
    same(x, -torch.arange(8.0).view(4, 2))


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match=r"expanded size|must match"):
        torch.zeros(3, device="openreg").copy_(torch.zeros(4))


def test_overlapping_destination_is_refused() -> None:
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        torch.zeros(1, device="openreg").expand(3).copy_(torch.ones(3))


@pytest.mark.parametrize("name", ["bits8", "int4", "uint1", "float4_e2m1fn_x2"])
def test_what_pytorch_cannot_convert_is_refused_and_the_device_goes_on(name: str) -> None:
    source = torch.arange(16, dtype=torch.uint8).view(4, 4).view(getattr(torch, name))
    target = torch.empty(4, 4)
    for dst, src in [(target, source), (torch.empty_like(source), source.t())]:
        there = torch.empty_like(dst, device="openreg")
        try:
            expected = torch.empty_like(dst).copy_(src)
        except NotImplementedError as error:
            with pytest.raises(NotImplementedError, match=re.escape(str(error))):
                there.copy_(src.to("openreg"))
        else:
            assert torch.equal(there.copy_(src.to("openreg")).cpu().view(torch.uint8), expected.view(torch.uint8))
    torch.accelerator.synchronize()
    same(torch.ones(2, device="openreg"), torch.ones(2))


@pytest.mark.parametrize("lazy", [torch.conj, lambda t: t.imag if t.is_complex() else t, lambda t: t.conj().imag])
def test_conjugate_and_negative_views(lazy: object) -> None:
    assert callable(lazy)
    x = values((5, 3), torch.complex64)
    expected = lazy(x)
    actual = lazy(x.to("openreg"))
    assert (actual.is_conj(), actual.is_neg()) == (expected.is_conj(), expected.is_neg())
    same(actual.cpu().resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg())
    same(actual.resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg())
    same(actual.clone(), expected.clone())
    same(actual + 1, expected + 1)
    assert actual.tolist() == expected.tolist()
    same(actual.to(LAST_DEVICE), expected)


def test_writes_through_a_conjugate_view() -> None:
    for x in (torch.zeros(3, dtype=torch.complex64, device="openreg"),):
        x.conj().copy_(torch.tensor([1 + 2j, 3 - 4j, 5j]))
        same(x, torch.tensor([1 - 2j, 3 + 4j, -5j]))
        x.conj().imag.fill_(9)
        assert x.imag.tolist() == [-9.0] * 3


def test_item_of_every_dtype() -> None:
    for dtype in DTYPES:
        x = values((3,), dtype)
        assert x.to("openreg")[2].item() == x[2].item()
        assert x.to("openreg").tolist() == x.tolist()


def test_printing() -> None:
    for dtype in DTYPES:
        if dtype == torch.complex32:
            continue  # the CPU cannot print it either: no kernel for ComplexHalf
        x = values((2, 3), dtype)
        text = repr(x.to("openreg"))
        assert "device='openreg:0'" in text
        assert text.split("]]")[0].split() == repr(x).split("]]")[0].split()


def test_copies_from_many_threads() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        x = torch.full((1000,), float(number))
        for _ in range(50):
            if not torch.equal(x.to(DEVICES[number % len(DEVICES)]).cpu(), x):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_meta_tensor_has_nothing_to_copy() -> None:
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        torch.empty(2, device="meta").to("openreg")
