"""When a result that differs from the CPU's is as good as it: another order of summation, and nothing more."""

from __future__ import annotations

import sys

import pytest
import torch
from accelerator_conformance.samples import Comparison
from torch.testing._internal.common_methods_invocations import op_db

from tests.conftest import RunProcess

SUM = next(entry for entry in op_db if entry.full_name == "sum")


def compare(actual: torch.Tensor, terms: torch.Tensor) -> None:
    """Compares a sum of the terms as the kit does."""
    Comparison(SUM, "cpu", torch.float32)._compare(actual, terms.sum(0), lambda: [terms.double().sum(0)])


@pytest.fixture
def terms() -> torch.Tensor:
    """Large terms that nearly cancel, in each column."""
    generator = torch.Generator().manual_seed(0)
    large = torch.randn(500, 100, generator=generator) * 1e3
    return torch.cat([large, -large + torch.rand(500, 100, generator=generator)])[
        torch.randperm(1000, generator=generator)
    ]


def test_another_order_of_summation_is_accepted(terms: torch.Tensor) -> None:
    exact = terms.double().sum(0)
    other = (exact + (terms.sum(0) - exact).abs().max() / 2).float()
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        torch.testing.assert_close(other, terms.sum(0))
    compare(other, terms)


@pytest.mark.parametrize("fault", ["an element", "all, by a little", "no number", "zero"])
def test_a_wrong_element_is_not(terms: torch.Tensor, fault: str) -> None:
    wrong = terms.sum(0)
    match fault:
        case "an element":
            wrong[7] *= 1.01
        case "all, by a little":
            terms = torch.rand_like(terms)
            wrong = terms.sum(0) * (1 + 1e-5)
        case "no number":
            wrong[7] = torch.nan
        case "zero":
            wrong[7] = 0
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        compare(wrong, terms)


def test_half_precision_has_its_own_tolerance() -> None:
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        Comparison(SUM, "cpu", torch.float16)._compare(
            torch.ones(2).half() * 1.1, torch.ones(2).half(), lambda: [torch.ones(2) * 1.1]
        )


def test_an_index_that_is_off_by_one_is_wrong_also_in_half_precision() -> None:
    argmax = next(entry for entry in op_db if entry.full_name == "argmax")
    with pytest.raises(AssertionError, match=r"Tensor-likes are not equal|Scalars are not equal"):
        Comparison(argmax, "cpu", torch.bfloat16)._compare(torch.tensor(19), torch.tensor(20), lambda: [])


def test_the_database_has_every_entry_that_is_asked_for(run_process: RunProcess) -> None:
    done = run_process(f"""
        import sys; sys.path[:] = {sys.path}
        from accelerator_conformance.test_operators import MINIMAL, USABLE, op_db
        print(sorted((MINIMAL | USABLE) - {{entry.full_name for entry in op_db}}))
        """)
    assert done.stdout.strip() == "[]", done.stderr
