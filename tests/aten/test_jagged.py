"""Rows of different lengths that are padded to one length, and back: CPU PyTorch's values, and nothing falls back."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import layer_norm
from torch.testing import assert_close

from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def reduced(device: str, dtype: torch.dtype, lengths: tuple[int, ...]) -> list[torch.Tensor]:
    """What pads jagged rows, and the gradient of that which has one on the CPU."""
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(length, 4, generator=generator).to(device, dtype) for length in lengths]
    x = torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=True)
    matrices = torch.ones(len(lengths), 4, 2, device=device, dtype=dtype)
    out = [x.amax(1), x.to_padded_tensor(-1.0), x.softmax(1).values(), (x @ matrices).values()]
    torch.stack([one.square().sum() for one in out]).sum().backward()
    return [*out, x.sum(1), x.mean(1), layer_norm(x, (x.size(1), 4)).values(), x.grad.values()]


@pytest.mark.usefixtures("nothing_falls_back")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("lengths", [(3, 1, 5), (2, 2), (1,)])
def test_what_pads_jagged_rows(dtype: torch.dtype, lengths: tuple[int, ...]) -> None:
    for here, there in zip(reduced(LAST_DEVICE, dtype, lengths), reduced("cpu", dtype, lengths), strict=True):
        assert here.device == torch.device(LAST_DEVICE)
        assert_close(here.detach().cpu(), there.detach())


@pytest.mark.usefixtures("nothing_falls_back")
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
@pytest.mark.parametrize("bounds", [[0, 3, 3, 5], [0, 0], [0, 5], [0]])
@pytest.mark.parametrize("values", [torch.randn(5, 2), torch.arange(5), torch.arange(5) > 2, torch.zeros(5, 0, 3)])
def test_jagged_rows_to_padded_ones_and_back(values: torch.Tensor, bounds: list[int], index: torch.dtype) -> None:
    pad, cut = torch.ops.aten._jagged_to_padded_dense_forward, torch.ops.aten._padded_dense_to_jagged_forward
    values, offsets = values[: bounds[-1]], torch.tensor(bounds, dtype=index)
    for length in (2, 3, 7):  # of three, the longest row; of fewer, the rest is left out
        there = pad(values, [offsets], [length], 1.0)
        here = pad(values.to(LAST_DEVICE), [offsets.to(LAST_DEVICE)], [length], 1.0)
        assert_close(here.cpu(), there)
        if length == 7:
            for total in (bounds[-1], None):
                assert_close(cut(here, [offsets.to(LAST_DEVICE)], total).cpu(), cut(there, [offsets], total))


@pytest.mark.parametrize(("values", "bounds"), [(6, [0, 2, 2, 9]), (6, [0, 7]), (0, [0, 1]), (3, [-1, 2])])
def test_offsets_that_end_elsewhere_than_the_values_are_refused(values: int, bounds: list[int]) -> None:
    given, offsets = torch.arange(1.0, values + 1, device=LAST_DEVICE), torch.tensor(bounds, device=LAST_DEVICE)
    with pytest.raises(IndexError, match="index out of range"):
        torch.ops.aten._jagged_to_padded_dense_forward(given, [offsets], [9], 0.0)
    if len(bounds) > 2:  # of a single row, PyTorch looks at no offsets
        nested = torch.nested.nested_tensor_from_jagged(given.unsqueeze(1), offsets)
        for reduce in (torch.sum, torch.mean, torch.amax):
            with pytest.raises(IndexError, match="index out of range"):
                reduce(nested, 1)


def test_offsets_that_do_not_fit_the_padded_rows_are_refused() -> None:
    cut, padded = torch.ops.aten._padded_dense_to_jagged_forward, torch.ones(2, 2, device=LAST_DEVICE)
    for bounds, total in (([0, 3, 4], 4), ([0, 1, 2], 3), ([0, 1, 2, 3], 3), ([0, 2, 1], 1)):
        offsets = torch.tensor(bounds, device=LAST_DEVICE)
        with pytest.raises((IndexError, RuntimeError), match=r"index out of range|required size|can not be negative"):
            cut(padded, [offsets], total)
    offsets = torch.tensor([0, 1], device=LAST_DEVICE)
    with pytest.raises(ValueError, match=r"^_padded_dense_to_jagged_forward: .* one dimension, got those of 2$"):
        cut(padded, [offsets, offsets], 1)
    with pytest.raises(ValueError, match=r"^_padded_dense_to_jagged_forward: .* a vector .*, got the shape \[1, 2\]$"):
        cut(padded, [offsets[None]], 1)


def test_a_value_without_dimensions_is_refused() -> None:
    value, offsets = torch.tensor(1.0, device=LAST_DEVICE), torch.tensor([0, 1], device=LAST_DEVICE)
    with pytest.raises(ValueError, match="expected values of at least one dimension"):
        torch.ops.aten._jagged_to_padded_dense_forward(value, [offsets], [3])


def test_small_offsets_of_padded_rows_that_they_cannot_count() -> None:
    """65,536 rows of 32,768 places: more than an int32 counts."""
    dense = torch.empty(1 << 16, 1 << 15, 0, device=LAST_DEVICE)
    offsets = torch.full(((1 << 16) + 1,), 2, dtype=torch.int32, device=LAST_DEVICE)
    offsets[0] = 0
    assert torch.ops.aten._padded_dense_to_jagged_forward(dense, [offsets], 2).shape == (2, 0)
