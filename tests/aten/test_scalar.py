from __future__ import annotations

import pytest
import torch

from tests.layouts import DTYPES, STORED_DTYPES
from tests.offers import DEVICES


@pytest.mark.parametrize("dtype", [*DTYPES, *STORED_DTYPES])
@pytest.mark.parametrize("device", DEVICES)
def test_one_element(dtype: torch.dtype, device: str) -> None:
    expected = torch.tensor([1.0, 0.0, 3.5]).to(dtype)
    tensor = expected.to(device)
    for index in range(3):
        value = tensor[index].item()
        assert value == expected[index].item()
        assert type(value) is type(expected[index].item())


def test_one_element_of_a_lazy_conjugate_and_a_negative() -> None:
    tensor = torch.tensor([1 + 2j, 3 - 4j]).to("openreg").conj()
    assert tensor[0].item() == 1 - 2j
    assert tensor[1].imag.item() == 4


def test_one_element_waits_for_the_work_before_it() -> None:
    with torch.Stream("openreg"):
        torch.openreg._sleep(30_000_000)
        assert torch.full((), 7.0, device="openreg").abs().item() == 7.0


def test_no_element_and_several() -> None:
    with pytest.raises(RuntimeError, match="a Tensor with 0 elements cannot be converted to Scalar"):
        torch.empty(0, device="openreg").item()
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        torch.empty(2, device="openreg").item()
    with pytest.raises(RuntimeError, match="_local_scalar_dense was asked for the number in a tensor without elements"):
        torch.ops.aten._local_scalar_dense(torch.empty(0, device="openreg"))
