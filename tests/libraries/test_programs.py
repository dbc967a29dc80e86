"""Programs of users' libraries compute what they compute on the CPU."""

from __future__ import annotations

import pytest
import torch

from tests.libraries.catalog import PROGRAMS, installed
from tests.libraries.programs import DEVICE, Program, compare, difference

pytestmark = [
    pytest.mark.needs("host kernels"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.id)
def test_a_program_computes_what_the_cpu_does(program: Program) -> None:
    for library in (program.library, *program.integrations):  # an integration has the name of its library
        if not installed(library):
            pytest.skip(f"{library} is not installed: an extra of pyproject.toml has it")
    found = compare(program)
    assert found.where == DEVICE
    assert program.without in found.without
    assert found.difference <= program.bound


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_a_difference(wrong: float) -> None:
    with pytest.raises(AssertionError, match="a value of the device is not finite"):
        difference({"loss": 1.0, "weight": torch.tensor([1.0, wrong])}, {"loss": 1.0, "weight": torch.ones(2)})
    with pytest.raises(AssertionError, match=f"{wrong} on the device, 1.0 on the CPU"):
        difference([1.0, wrong], [1.0, 1.0])
