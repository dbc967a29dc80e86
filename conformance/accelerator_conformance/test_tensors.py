"""Tensors: created, copied, viewed, indexed and printed. All other checks build on these, with values compared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from accelerator_conformance.checks import chapter, level, optional_dtype

pytestmark = chapter("operators")
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
WIDE_DTYPES = (torch.float64, torch.complex64, torch.complex128, torch.int8, torch.int16)


def some(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """A CPU tensor with values that every dtype can hold."""
    return (torch.arange(torch.Size(shape).numel()) % 7).view(shape).to(dtype)


@chapter("copies")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(device: str, dtype: torch.dtype) -> None:
    """A tensor goes to the device and comes back unchanged."""
    x = some(dtype, 5, 7)
    there = x.to(device)
    assert (there.device.type, there.dtype, there.shape, there.stride()) == (device, dtype, x.shape, x.stride())
    assert torch.equal(there.cpu(), x)


@level("usable")
@chapter("copies")
@pytest.mark.parametrize("dtype", WIDE_DTYPES, ids=str)
def test_round_trip_of_other_dtypes(device: str, dtype: torch.dtype) -> None:
    """The dtypes that a device may lack are copied, or refused by an error that names the dtype."""
    x = some(dtype, 5, 7)
    with optional_dtype(dtype):
        there = x.to(device)
    assert there.dtype == dtype
    assert torch.equal(there.cpu(), x)


@chapter("copies")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_dtype_is_converted(device: str, dtype: torch.dtype) -> None:
    """`.to(dtype)` converts on the device as on the CPU, and so does a copy that also moves."""
    x = torch.tensor([-2.5, 0.0, 1.0, 3.7])
    assert torch.equal(x.to(device).to(dtype).cpu(), x.to(dtype))
    assert torch.equal(x.to(device, dtype).cpu(), x.to(dtype))
    assert torch.equal(x.to(device).cpu().to(dtype), x.to(dtype))


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "sliced": lambda x: x[1:, ::2],
    "expanded": lambda x: x[:1].expand(4, -1),
    "one column": lambda x: x[:, 1],
    "diagonal": lambda x: x.diagonal(),
}


@chapter("copies")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_of_every_layout(device: str, layout: str) -> None:
    """A copy from and to a tensor of any strides puts every value in its place, and writes nothing else."""
    base = torch.arange(24.0).view(4, 6)
    view, there = LAYOUTS[layout](base), LAYOUTS[layout](base.to(device))
    assert there.stride() == view.stride(), f"the view has strides {there.stride()}, on the CPU {view.stride()}"
    assert torch.equal(there.cpu(), view), "from the device"
    assert torch.equal(there.clone().cpu(), view), "on the device"
    if layout != "expanded":
        target, expected = torch.zeros(4, 6, device=device), torch.zeros(4, 6)
        LAYOUTS[layout](target).copy_(view)
        LAYOUTS[layout](expected).copy_(view)
        assert torch.equal(target.cpu(), expected), "to the device"


@pytest.mark.parametrize("strides", [(4, 1), (1, 3), (8, 2)], ids=str)
def test_empty_strided(device: str, strides: tuple[int, int]) -> None:
    """empty_strided has the requested strides, and memory for them."""
    x = torch.empty_strided((3, 4), strides, device=device)
    assert x.stride() == strides, f"empty_strided{strides} has strides {x.stride()}"
    x.copy_(some(torch.float32, 3, 4))
    assert torch.equal(x.cpu(), some(torch.float32, 3, 4))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_memory_format(device: str, memory_format: torch.memory_format) -> None:
    """A requested memory format is applied, and operators preserve it."""
    x = some(torch.float32, 2, 3, 4, 5)
    there = x.to(device).to(memory_format=memory_format)
    expected = x.to(memory_format=memory_format)
    assert there.stride() == expected.stride()
    assert (there * 2).stride() == (expected * 2).stride(), "an elementwise operator changed the memory format"
    assert torch.equal((there * 2).cpu(), expected * 2)


def test_views_share_memory(device: str) -> None:
    """Writing to a view changes its base."""
    x = torch.zeros(4, 6, device=device)
    x.view(24)[3] = 3.0
    x.t()[0, 2] = 5.0
    x[1].add_(1)
    expected = torch.zeros(4, 6)
    expected[0, 3], expected[2, 0], expected[1] = 3.0, 5.0, 1.0
    assert torch.equal(x.cpu(), expected)
    assert x.view(24).data_ptr() == x.data_ptr()
    assert x[1]._base is x


def test_indexing(device: str) -> None:
    """Indices of numbers, slices, tensors and masks read and write as on the CPU."""
    x = torch.arange(24.0).view(4, 6)
    there = x.to(device)
    rows = torch.tensor([3, 0, 3])
    mask = x > 10
    assert torch.equal(there[rows.to(device)].cpu(), x[rows])
    assert torch.equal(there[mask.to(device)].cpu(), x[mask])
    there[rows.to(device), 1] = -1.0
    x[rows, 1] = -1.0
    there[mask.to(device)] = 0.0
    x[mask] = 0.0
    assert torch.equal(there.cpu(), x)


def test_numbers_come_to_the_host(device: str) -> None:
    """item(), tolist(), bool() and print() see the values."""
    x = torch.tensor([1.5, -2.0], device=device)
    assert x[1].item() == -2.0
    assert x.tolist() == [1.5, -2.0]
    assert bool(x[0] > 1)
    assert repr(x) == f"tensor([ 1.5000, -2.0000], device='{x.device}')"


@chapter("errors")
def test_devices_are_not_mixed_with_the_cpu(device: str) -> None:
    """An operator rejects a CPU tensor together with one of the device, but accepts CPU numbers."""
    x = torch.ones(2, device=device)
    with pytest.raises(RuntimeError, match="device"):
        x + torch.ones(2)
    assert (x + torch.tensor(2.0)).tolist() == [3, 3]
    assert (x + 2).tolist() == [3, 3]


def test_out_is_written_in_place(device: str) -> None:
    """`out=` writes into the given tensor's memory, and resizes an empty tensor."""
    x = torch.arange(6.0, device=device)
    base = torch.zeros(2, 6, device=device)
    returned = torch.mul(x, 2, out=base[1])
    assert returned.data_ptr() == base[1].data_ptr()
    assert base.tolist() == [[0] * 6, [0, 2, 4, 6, 8, 10]]
    grown = torch.empty(0, device=device)
    torch.mul(x, 2, out=grown)
    assert grown.tolist() == [0, 2, 4, 6, 8, 10]


def test_in_place_operators_return_their_tensor(device: str) -> None:
    """`add_` modifies its tensor, and returns it."""
    x = torch.arange(3.0, device=device)
    assert x.add_(1).mul_(2) is x
    assert x.tolist() == [2, 4, 6]


@chapter("storage")
def test_resize_and_set(device: str) -> None:
    """resize_ and set_ change the shape of a tensor, and keep its memory."""
    x = torch.arange(6.0, device=device)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    y = torch.empty(0, device=device).set_(x)
    assert y.data_ptr() == x.data_ptr()
    assert x.resize_(100)[:4].tolist() == [0, 1, 2, 3]


@chapter("fallback")
def test_operators_return_tensors_of_the_device(device: str) -> None:
    """Operators for which few backends have a kernel compute, and return their results on the device."""
    x = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
    there = x.to(device)
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "logcumsumexp": lambda x: x.logcumsumexp(0),
        "renorm": lambda x: x.renorm(2, 0, 1.0),
        "cdist": lambda x: torch.cdist(x, x),
        "histc": lambda x: x.histc(4),
    }
    for name, function in functions.items():
        result = function(there)
        assert result.device.type == device, f"{name} leaves its result on {result.device}"
        torch.testing.assert_close(result.cpu(), function(x))
