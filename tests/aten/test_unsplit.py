"""Operators whose meta function is the backend's own: against the CPU, on the stream, and never falling back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils import _pytree as pytree

pytestmark = pytest.mark.skipif(
    "aten::index_select" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
    reason="this build has no kernels",
)
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def nothing_falls_back() -> Iterator[None]:
    torch.openreg.set_fallback_policy("error")
    yield
    torch.openreg.set_fallback_policy("all")


def same(call: Callable[..., object], *tensors: Tensor, device: str = "openreg:0") -> None:
    """The call gives the values, dtypes and strides of the CPU."""
    expected = call(*tensors)
    actual = call(*(tensor.to(device) for tensor in tensors))
    torch.testing.assert_close(pytree.tree_map(Tensor.cpu, actual), expected, check_stride=True)
    assert {str(leaf.device) for leaf in pytree.tree_leaves(actual)} == {device}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.int64, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("device", ["openreg:0", "openreg:1"])
def test_index_select(dtype: torch.dtype, device: str) -> None:
    x = torch.arange(24).view(2, 3, 4).to(dtype)
    indices = [torch.tensor(index) for index in ([1, 0, 1], [1], 0)]
    for index in (*indices, indices[0].int(), indices[0][:0]):
        same(lambda x, index: x.index_select(1, index), x, index, device=device)
        same(lambda x, index: x.mT[..., ::2].index_select(-1, index), x, index, device=device)
        same(lambda x, index: torch.index_select(x, 0, index, out=x.new_empty(0)), x, index, device=device)
    same(lambda x, index: x[0, 0, 0].index_select(0, index), x, torch.tensor([0]), device=device)
    same(lambda x, index: x[:0].index_select(2, index), x, torch.tensor([3, 3]), device=device)


def test_an_index_is_checked_like_the_cpus() -> None:
    for index, dim in (([3], 0), ([-1], 0), ([0], 2), ([0.0], 0)):
        messages = []
        for device in ("cpu", "openreg"):
            with pytest.raises((IndexError, RuntimeError), match=r"[Ii]ndex|range") as raised:
                torch.ones(2, 2, device=device).index_select(dim, torch.tensor(index, device=device))
            messages.append((type(raised.value), str(raised.value)))
        assert messages[0] == messages[1]
    x = torch.ones(2, 2, device="openreg")
    with pytest.raises(RuntimeError, match="index is on cpu, different from other tensors on openreg:0"):
        x.index_select(0, torch.tensor([0]))
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.index_select(x, 0, torch.tensor([0, 1], device="openreg"), out=x)
    for size in (x.shape, (7, 7)):  # also where it would be resized
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers"):
            torch.index_select(x, 0, torch.tensor([0, 1], device="openreg"), out=x.new_zeros(()).expand(size))
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("padding_idx", [None, 2])
@pytest.mark.parametrize("scale", [False, True], ids=["plain", "by frequency"])
def test_embedding(padding_idx: int | None, scale: bool) -> None:
    def gradient(weight: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        weight = weight.clone().requires_grad_()
        output = functional.embedding(words, weight, padding_idx=padding_idx, scale_grad_by_freq=scale)
        output.backward(torch.arange(1.0, output.numel() + 1).view_as(output).to(output.device))
        assert weight.grad is not None
        return output.detach(), weight.grad

    for words in ([[2, 1], [1, 0]], [3], []):
        same(gradient, torch.randn(4, 3), torch.tensor(words).long())


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
def test_deviations(name: str, dtype: torch.dtype) -> None:
    call = getattr(torch, name)
    x = torch.randn(3, 4, 5).to(dtype)
    for options in ({}, {"dim": 1}, {"dim": (0, -1), "keepdim": True}, {"dim": 2, "correction": 0}, {"correction": 2}):
        same(lambda x, options=options: call(x, **options), x)
        same(lambda x, options=options: call(x.mT[::2], **options), x)


def test_a_deviation_has_a_gradient() -> None:
    def gradient(x: Tensor) -> Tensor | None:
        x = x.clone().requires_grad_()
        x.std(1).sum().backward()
        return x.grad

    same(gradient, torch.randn(3, 4))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.uint8, torch.bool], ids=str)
def test_one_number_of_a_whole_tensor(dtype: torch.dtype) -> None:
    x = torch.tensor([[3, 1, 2], [1, 2, 1]]).to(dtype)
    for call in (torch.max, torch.min, torch.prod):
        for view in (lambda x: x, lambda x: x.mT, lambda x: x[:, ::2], lambda x: x[1, 1]):
            same(lambda x, call=call, view=view: call(view(x)), x)
    same(lambda x: x[:0].prod(), x)
    same(lambda x: x.prod(dtype=torch.float64), x)
    if dtype.is_floating_point:
        same(lambda x: torch.stack([x.max(), x.min(), x.prod()]).isnan(), torch.tensor([1.0, float("nan")]).to(dtype))
    for device in ("cpu", "openreg"):
        with pytest.raises(RuntimeError, match=r"max\(\): Expected reduction dim to be specified"):
            x[:0].to(device).max()


def test_they_are_queued() -> None:
    x = torch.randn(4, 4, device="openreg")
    for call in (lambda: x.std(0), lambda: x.max()):
        call()  # what the library refuses is tried once
        with torch.Stream("openreg") as stream:
            torch.openreg._sleep(100_000_000)
            call()
            assert not stream.query()
            stream.synchronize()


def test_on_several_threads() -> None:
    x = torch.randn(64, 8)
    expected = functional.layer_norm(x, (8,)).std(0)
    results: list[Tensor] = []

    def work(index: int) -> None:
        device = f"openreg:{index % 2}"
        with torch.Stream(device):
            for _ in range(20):
                results.append(functional.layer_norm(x.to(device), (8,)).std(0).cpu())

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80
    for result in results:
        torch.testing.assert_close(result, expected)
