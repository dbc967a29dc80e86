"""Programs of users' libraries compute what they compute on the CPU."""

from __future__ import annotations

import pytest

from tests.libraries.catalog import PROGRAMS, installed
from tests.libraries.programs import DEVICE, Program, compare

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
