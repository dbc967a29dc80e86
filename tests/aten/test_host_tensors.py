"""Host tensors among device tensors: as results, and as indices.

The dispatcher routes an operator that writes into a host tensor to the device's kernels if another argument is there. A
single number is copied back to the host; anything larger is refused, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.offers import LAST_DEVICE

THREE = torch.tensor(3.0)
Write = Callable[[torch.Tensor, str], object]

NUMBERS: dict[str, Write] = {
    "fill_": lambda x, device: x.fill_(THREE.to(device)),
    "constant_": lambda x, device: torch.nn.init.constant_(x, THREE.to(device)),  # type: ignore[arg-type]
    "index": lambda x, device: x.__setitem__([0], THREE.to(device)),
    "masked_fill_": lambda x, device: x.masked_fill_(torch.tensor([True, False]), THREE.to(device)),
    "index_fill_": lambda x, device: x.index_fill_(0, torch.tensor([1]), THREE.to(device)),
}
TENSORS: dict[str, Write] = {
    "an index": lambda x, device: x.__setitem__(torch.tensor([0], device=device), 3.0),
    "a mask": lambda x, device: x.__setitem__(torch.tensor([True, False], device=device), 3.0),
    "values": lambda x, device: x.index_put_((torch.tensor([0]),), torch.ones(1, device=device)),
    "a number as index": lambda x, device: x.index_put_((torch.tensor(0, device=device),), torch.ones(())),
    "masked_fill_": lambda x, device: x.masked_fill_(torch.tensor([True, False], device=device), 3.0),
    "index_fill_": lambda x, device: x.index_fill_(0, torch.tensor([0], device=device), 3.0),
    "fill_": lambda x, device: x.fill_(torch.ones(2, device=device)),
    "put_": lambda x, device: x.put_(torch.tensor([0], device=device), torch.ones(1, device=device)),
    "masked_scatter_": lambda x, device: x.masked_scatter_(
        torch.tensor([True, False], device=device), torch.ones(1, device=device)
    ),
}


@pytest.mark.parametrize("write", NUMBERS.values(), ids=NUMBERS)
def test_a_number_of_the_device_is_written(write: Write) -> None:
    expected, actual = torch.zeros(2), torch.zeros(2)
    write(expected, "cpu")
    write(actual, LAST_DEVICE)
    assert expected.count_nonzero() > 0
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.parametrize("write", TENSORS.values(), ids=TENSORS)
def test_a_tensor_of_the_device_is_refused(write: Write) -> None:
    x = torch.zeros(2)
    # fill_ first asks whether the tensor is a number.
    text = "xpected all tensors to be on the same device|fill_ only supports 0-dimension value tensor"
    with pytest.raises(RuntimeError, match=text):
        write(x, "openreg")
    assert x.tolist() == [0.0, 0.0]


def test_the_error_names_both_devices_and_the_cure() -> None:
    with pytest.raises(
        RuntimeError,
        # From a kernel, or from the fallback.
        match=rf"masked_fill_\.Scalar is .*on cpu and .*another one on {LAST_DEVICE}: move",
    ):
        torch.zeros(2).masked_fill(torch.tensor([True, False], device=LAST_DEVICE), 3.0)


def test_the_gradient_of_a_number_comes_back_to_the_device() -> None:
    number = torch.tensor(3.0, device="openreg", requires_grad=True)
    x = torch.zeros(2).masked_fill(torch.tensor([True, True]), number)
    x.sum().backward()
    assert number.grad is not None
    assert (number.grad.item(), number.grad.device.type) == (2.0, "openreg")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn], ids=str)
def test_one_element_takes_what_its_dtype_makes_of_a_number(dtype: torch.dtype) -> None:
    one = torch.zeros(1, dtype=dtype)
    for number in (1e39, -1e300, 7.0):
        expected = one.clone().fill_(number).float()
        assert one.to("openreg").fill_(number).cpu().float().equal(expected)
    for device in ("cpu", "openreg"):
        with pytest.raises(RuntimeError, match="without overflow"):
            torch.zeros(2, dtype=dtype, device=device).fill_(1e39)


def _gradient(x: torch.Tensor, indices: tuple[torch.Tensor, ...]) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    leaf[indices].square().sum().backward()
    assert leaf.grad is not None
    return leaf.grad


INDEXED: dict[str, Callable[[torch.Tensor, tuple[torch.Tensor, ...]], torch.Tensor]] = {
    "read": lambda x, indices: x[indices],
    "written": lambda x, indices: x.clone().index_put_(indices, torch.tensor(7.0, device=x.device)),
    "added": lambda x, indices: x.clone().index_put_(indices, x[0, 0], accumulate=True),
    "derived": _gradient,
}


@pytest.mark.parametrize("call", INDEXED.values(), ids=INDEXED)
def test_indices_of_the_host_that_share_memory(call: Callable[..., torch.Tensor]) -> None:
    x = torch.arange(1.0, 10.0).view(3, 3)
    pairs = torch.tensor([[0, 2], [1, 1], [0, 2]])
    for indices in (tuple(torch.tril_indices(3, 3, -1)), torch.eye(3).nonzero(as_tuple=True), pairs.unbind(1)):
        torch.testing.assert_close(call(x.to(LAST_DEVICE), indices).cpu(), call(x, indices), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:Singular sample detected")  # on the CPU, too
def test_a_distribution_that_indexes_with_host_tensors() -> None:
    scale = torch.eye(3, device=LAST_DEVICE)
    sample = torch.distributions.Wishart(torch.tensor(5.0, device=LAST_DEVICE), scale).rsample((4,))
    assert sample.device == torch.device(LAST_DEVICE)
    assert torch.linalg.eigvalsh(sample.cpu()).min() > 0
