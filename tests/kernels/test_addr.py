"""addr: a matrix plus an outer product, computed by the library, also into outputs of other dtypes."""

from __future__ import annotations

import itertools

import pytest
import torch

pytestmark = pytest.mark.usefixtures("nothing_falls_back")
DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.complex64]
NUMBERS = [0, 2, True, 1.5]


def outcome(device: str, dtype: torch.dtype, out: torch.dtype | None, beta: float, alpha: float) -> torch.Tensor | str:
    matrix, column, row = ([[1, 0], [1, 1], [0, 1]], [1, 0, 1], [0, 1])
    tensors = [torch.tensor(numbers, dtype=dtype, device=device) for numbers in (matrix, column, row)]
    into = None if out is None else torch.empty(0, dtype=out, device=device)
    try:
        result = torch.addr(*tensors, beta=beta, alpha=alpha, out=into)
    except RuntimeError as error:
        return str(error)
    return result.cpu()


@pytest.mark.parametrize("out", [None, *DTYPES], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_refusals_are_those_of_the_cpu(dtype: torch.dtype, out: torch.dtype | None) -> None:
    for beta, alpha in itertools.product(NUMBERS, NUMBERS):
        expected, actual = (outcome(device, dtype, out, beta, alpha) for device in ("cpu", "openreg"))
        if isinstance(expected, str):
            assert actual == expected, (beta, alpha)
        else:
            assert isinstance(actual, torch.Tensor), (beta, alpha, actual)
            torch.testing.assert_close(actual, expected, msg=f"beta={beta}, alpha={alpha}: {actual}, not {expected}")


def test_in_place() -> None:
    def added(device: str) -> torch.Tensor:
        matrix = torch.ones(2, 3, device=device).t()
        return matrix.addr_(torch.arange(3.0, device=device), torch.tensor([1.0, 2.0], device=device), alpha=2)

    torch.testing.assert_close(added("openreg").cpu(), added("cpu"))


# In place nothing is broadcast and nothing resized, whatever the dtypes are.
@pytest.mark.parametrize(
    "dtypes", list(itertools.product([torch.int64, torch.float16, torch.float32], repeat=2)), ids=str
)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3), (2, 3), (3, 2), (2, 3, 1)], ids=str)
@pytest.mark.parametrize("lengths", [(1, 1), (2, 3), (0, 3)], ids=str)
def test_in_place_into_another_dtype(
    dtypes: tuple[torch.dtype, torch.dtype], shape: tuple[int, ...], lengths: tuple[int, int]
) -> None:
    def added(device: str) -> torch.Tensor | str:
        column, row = (torch.arange(length, dtype=dtypes[1], device=device) for length in lengths)
        try:
            return torch.ones(shape, dtype=dtypes[0], device=device).addr_(column, row).cpu()
        except RuntimeError as error:
            return str(error)

    expected, actual = added("cpu"), added("openreg")
    if isinstance(expected, str):
        assert actual == expected
    else:
        assert isinstance(actual, torch.Tensor), actual
        torch.testing.assert_close(actual, expected)
