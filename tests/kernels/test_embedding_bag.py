"""Embedding bags and their gradients, compared with the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.offers import DEVICES

pytestmark = [
    pytest.mark.usefixtures("nothing_falls_back"),
    pytest.mark.skipif(
        "aten::_embedding_bag" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
        reason="this build has no kernels",
    ),
]
INDICES = torch.tensor([1, 3, 4, 5, 4, 3, 2, 9])
OFFSETS = torch.tensor([0, 4, 4, 7])  # the second bag is empty


def results(
    device: str, dtype: torch.dtype, indices: torch.Tensor, offsets: Any, weighted: bool, **options: Any
) -> Any:
    """The bags, and the gradients of the table and of the weights, if any."""
    generator = torch.Generator().manual_seed(2)
    leaves = [torch.randn(10, 4, generator=generator).to(dtype).to(device).requires_grad_()]
    if weighted:
        leaves.append(torch.rand(indices.shape, generator=generator).to(dtype).to(device).requires_grad_())
        options["per_sample_weights"] = leaves[1]
    offsets = offsets if offsets is None else offsets.to(device)
    bags = functional.embedding_bag(indices.to(device), leaves[0], offsets, **options)
    weights = torch.linspace(-1, 1, bags.numel()).view(bags.shape).to(dtype).to(device)
    return [tensor.cpu() for tensor in (bags, *torch.autograd.grad(bags, leaves, weights))]


@pytest.mark.parametrize(
    "options",
    [{}, {"padding_idx": 3}, {"include_last_offset": True}, {"scale_grad_by_freq": True}],
    ids=["plain", "padding", "last offset", "by frequency"],
)
@pytest.mark.parametrize("index", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_bags_and_gradients(dtype: torch.dtype, mode: str, index: torch.dtype, options: dict[str, Any]) -> None:
    if mode == "max" and "scale_grad_by_freq" in options:
        options = {}  # PyTorch does not scale maxima
    offsets = torch.cat([OFFSETS, torch.tensor([8])]) if "include_last_offset" in options else OFFSETS
    both = [
        results(device, dtype, INDICES.to(index), offsets.to(index), False, mode=mode, **options)
        for device in ("openreg", "cpu")
    ]
    torch.testing.assert_close(*both)


@pytest.mark.parametrize("indices", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("offsets", [torch.int64, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_offsets_of_another_dtype_than_the_indices(mode: str, indices: torch.dtype, offsets: torch.dtype) -> None:
    places = torch.tensor([0, 1]).to(offsets)  # of bool, too, which the CPU takes
    both = [
        results(device, torch.float32, INDICES.to(indices), places, False, mode=mode) for device in ("openreg", "cpu")
    ]
    torch.testing.assert_close(*both)


@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_weighted_sums(dtype: torch.dtype, padding: int | None) -> None:
    both = [
        results(device, dtype, INDICES, OFFSETS, True, mode="sum", padding_idx=padding) for device in ("openreg", "cpu")
    ]
    torch.testing.assert_close(*both)


def test_bags_of_one_size() -> None:
    both = [
        results(device, torch.float32, INDICES.view(2, 4), None, False, mode="mean") for device in ("openreg", "cpu")
    ]
    torch.testing.assert_close(*both)


def test_no_bags_and_no_indices() -> None:
    table = torch.randn(3, 2, device="openreg", requires_grad=True)
    empty = torch.empty(0, dtype=torch.int64, device="openreg")
    assert functional.embedding_bag(empty, table, empty).shape == (0, 2)
    bags = functional.embedding_bag(empty, table, torch.zeros(2, dtype=torch.int64, device="openreg"))
    assert bags.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    bags.sum().backward()
    assert table.grad.tolist() == [[0.0, 0.0]] * 3


def test_a_module_without_gradients() -> None:
    module = torch.nn.EmbeddingBag(10, 4, mode="mean")
    with torch.no_grad():
        expected = module(INDICES, OFFSETS)
        actual = module.to("openreg")(INDICES.to("openreg"), OFFSETS.to("openreg"))
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize(
    ("indices", "offsets", "why"),
    [
        ([1, 11], [0], "Index 1 of input takes value 11|found idx to be 11"),
        ([1, 2], [1], r"offsets\[0\] has to be 0"),
        ([1, 2], [0, 5], r"offsets\[-1\] can not be greater than input's length"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_values_are_refused_and_the_device_goes_on(
    dtype: torch.dtype, indices: list[int], offsets: list[int], why: str
) -> None:
    table = torch.randn(10, 4, device="openreg", dtype=dtype)
    with pytest.raises(RuntimeError, match=why):
        functional.embedding_bag(
            torch.tensor(indices, device="openreg"), table, torch.tensor(offsets, device="openreg"), mode="sum"
        )
    assert functional.embedding_bag(INDICES.to("openreg"), table, OFFSETS.to("openreg")).shape == (4, 4)


def test_shapes_and_devices_that_do_not_go_together() -> None:
    aten = torch.ops.aten
    table, indices, offsets = torch.randn(10, 4, device="openreg"), INDICES.to("openreg"), OFFSETS.to("openreg")
    with pytest.raises(RuntimeError, match="expected a table of 2 dimensions, and indices and offsets of 1, but got"):
        aten._embedding_bag(table[0], indices, offsets)
    with pytest.raises(RuntimeError, match="expected a mode of 0, 1 or 2, but got 3"):
        aten._embedding_bag(table, indices, offsets, False, 3)
    with pytest.raises(RuntimeError, match="include_last_offset: expected at least one offset"):
        aten._embedding_bag(table, indices, offsets[:0], False, 0, False, None, True)
    for other in DEVICES[1:]:
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            functional.embedding_bag(indices, table.to(other), offsets)


def test_a_sparse_gradient_is_refused() -> None:
    table = torch.randn(10, 4, device="openreg", requires_grad=True)
    bags = functional.embedding_bag(INDICES.to("openreg"), table, OFFSETS.to("openreg"), sparse=True)
    with pytest.raises(NotImplementedError, match="are dense with sparse=False"):
        bags.sum().backward()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_no_bag_is_looked_for_where_there_is_none(mode: str) -> None:
    """The CPU searches an empty table, and the process crashes."""
    table = torch.ones(10, 3, device="openreg", requires_grad=True)
    none, indices = torch.tensor([], dtype=torch.long, device="openreg"), torch.tensor([1, 2], device="openreg")
    with pytest.raises(RuntimeError, match="embedding_bag: got 2 indices and no bag: give the offset"):
        functional.embedding_bag(indices, table, none, mode=mode).sum().backward()
    if mode == "sum":
        weights = torch.ones(2, device="openreg", requires_grad=True)
        with torch.no_grad():
            assert functional.embedding_bag(indices, table, none, mode=mode).shape == (0, 3)
        bags = functional.embedding_bag(indices, table.detach(), none, mode=mode, per_sample_weights=weights)
        with pytest.raises(RuntimeError, match="embedding_bag: got 2 indices and no bag: give the offset"):
            bags.sum().backward()
    functional.embedding_bag(none, table, none, mode=mode).sum().backward()
    assert table.grad is not None
    assert table.grad.count_nonzero() == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_an_index_behind_the_last_offset_has_no_gradient_to_read(weighted: bool) -> None:
    table = torch.zeros(5, 2, device="openreg", requires_grad=True)
    indices, offsets = torch.tensor([0, 1, 4], device="openreg"), torch.tensor([0, 1, 2], device="openreg")
    weights = torch.ones(3, device="openreg", requires_grad=True) if weighted else None
    out = functional.embedding_bag(
        indices, table, offsets, mode="sum", include_last_offset=True, per_sample_weights=weights
    )
    beyond = torch.full((3, 2), 777.0, device="openreg")
    with pytest.raises(RuntimeError, match="with include_last_offset, the last offset must be the number of indices"):
        torch.autograd.grad(out, table if weights is None else weights, beyond[:2])


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_no_bag_is_looked_for_with_an_index_to_leave_out(mode: str) -> None:
    """The CPU looks up the bag of each index then, and the process crashes."""
    indices, none = torch.tensor([1, 2, 2], device="openreg"), torch.tensor([], dtype=torch.long, device="openreg")
    with pytest.raises(RuntimeError, match="embedding_bag: got 3 indices and no bag: give the offset"):
        functional.embedding_bag(indices, torch.ones(10, 3, device="openreg"), none, mode=mode, padding_idx=2)


def test_derivatives_check_indices_and_bags() -> None:
    """The CPU's check neither when they are called directly, and the process crashes."""
    grad, table = torch.ones(2, 3, device="openreg"), torch.ones(5, 3, device="openreg")
    good, bags = torch.tensor([0, 1], device="openreg"), torch.tensor([0, 1], device="openreg")
    sizes, far = torch.ones(2, dtype=torch.long, device="openreg"), torch.tensor([0, 10**9], device="openreg")

    def dense(indices: torch.Tensor, of_bag: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.aten._embedding_bag_dense_backward(
            grad, indices, of_bag, sizes, sizes, 5, False, 0, None
        )
        return result

    def weights(indices: torch.Tensor, of_bag: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.aten._embedding_bag_per_sample_weights_backward(
            grad, table, indices, bags, of_bag, 0
        )
        return result

    for call in (dense, weights):
        assert call(good, bags).isfinite().all()
        with pytest.raises(RuntimeError, match="embedding_bag: expected indices from 0 to 4, but got 1000000000"):
            call(far, bags)
        with pytest.raises(RuntimeError, match="embedding_bag: there are 2 bags, and an index is in bag 1000000000"):
            call(good, far)
        with pytest.raises(RuntimeError, match="embedding_bag: there are 2 bags, and an index is in bag -1"):
            call(good, bags - 1)
